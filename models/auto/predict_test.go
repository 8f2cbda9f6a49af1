package auto_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// predictors returns a model for each task that makes predictions, in training mode with a dropout
// of 0.5, and a function that makes a prediction with it.
func predictors(t *testing.T) (models []*auto.Model, predict []func() (string, error)) {
	t.Helper()
	testenv.RequireTorch(t)
	const words = "we live in new york"
	dir := func(config string) string {
		dir := t.TempDir()
		vocab := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + strings.ReplaceAll(words, " ", "\n") + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(vocab), 0o666))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
		return dir
	}
	o := auto.Options{FromConfig: true, Warnings: io.Discard}
	const size = `"vocab_size": 10, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
		"intermediate_size": 32, "hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5,
		"initializer_range": 0.5}`
	torch.ManualSeed(3)
	qa, err := auto.QuestionAnswering(t.Context(), dir(`{"model_type": "bert", `+size), o)
	require.NoError(t, err)
	mlm, err := auto.MaskedLM(t.Context(), dir(`{"model_type": "mpnet", `+size), o)
	require.NoError(t, err)
	o.ID2Label = []string{"A", "B", "C", "D", "E", "F", "G", "H"}
	ner, err := auto.TokenClassification(t.Context(), dir(`{"model_type": "electra", `+size), o)
	require.NoError(t, err)
	return []*auto.Model{qa.Model, mlm.Model, ner.Model}, []func() (string, error){
		func() (string, error) {
			answers, err := qa.Predict("live in", words, question.AnswerOptions{})
			return fmt.Sprint(answers), err
		},
		func() (string, error) {
			guesses, err := mlm.Predict("we live in [MASK] york", 10)
			return fmt.Sprint(guesses), err
		},
		func() (string, error) {
			tags, err := ner.Predict(strings.Fields(words))
			return fmt.Sprint(tags), err
		},
	}
}

func TestSeveralGoroutinesPredictWhatOneDoes(t *testing.T) {
	models, predict := predictors(t)
	for i, one := range predict {
		want, err := one()
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					got, err := one()
					if !assert.NoError(t, err) || !assert.Equal(t, want, got) {
						return
					}
				}
			})
		}
		all.Wait()
		assert.True(t, models[i].Training(), "the mode is restored")
	}
}

// TestPredictionsAreMadeWhereTheModelIs uses embeddings on the meta device, on which nothing can be
// computed.
func TestPredictionsAreMadeWhereTheModelIs(t *testing.T) {
	models, _ := predictors(t)
	for _, m := range models {
		m.InputEmbeddings().Weight = torch.TensorOptions{Device: torch.Meta}.Zeros(10, 16)
		assert.Equal(t, torch.Meta, auto.DeviceOfPredictions(m))
	}
}

func TestModelsOnAGPUPredict(t *testing.T) {
	testenv.RequireCUDA(t)
	models, predict := predictors(t)
	for i, one := range predict {
		nn.To(models[i], torch.TensorOptions{Device: torch.CUDA(0)})
		got, err := one()
		require.NoError(t, err)
		assert.NotEmpty(t, got)
	}
}

func TestLoadedModelsAreInEvaluationMode(t *testing.T) {
	models, _ := predictors(t)
	dir := t.TempDir()
	require.NoError(t, models[0].Save(dir))
	again, err := auto.QuestionAnswering(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	for _, n := range nn.Modules(again) {
		if m, ok := n.Module.(interface{ Training() bool }); ok {
			assert.False(t, m.Training(), n.Name)
		}
	}
}
