package auto_test

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
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
	classifier, err := auto.SequenceClassification(t.Context(), dir(`{"model_type": "bert", `+size), o)
	require.NoError(t, err)
	return []*auto.Model{qa.Model, mlm.Model, ner.Model, classifier.Model}, []func() (string, error){
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
		func() (string, error) {
			classes, err := classifier.Predict(text.Pair("live in", words))
			return fmt.Sprint(classes), err
		},
	}
}

// TestTextClassesAreThoseOfTheLogits, for each type of head.
func TestTextClassesAreThoseOfTheLogits(t *testing.T) {
	testenv.RequireTorch(t)
	dir := small(`"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
		"intermediate_size": 32`, "good")
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	for kind, of := range map[classify.ProblemType]func(float64) float64{
		classify.SingleLabel: func(x float64) float64 { return math.Exp(x) },
		classify.MultiLabel:  func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
		classify.Regression:  func(x float64) float64 { return x },
	} {
		m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard,
			ID2Label: []string{"a", "b", "c"}, ProblemType: kind})
		require.NoError(t, err)
		nn.SetTraining(m, false)
		classes, err := m.Predict(text.Single("good good"))
		require.NoError(t, err)
		assert.True(t, slices.IsSortedFunc(classes, func(a, b auto.Class) int { return cmp.Compare(b.Score, a.Score) }))
		logits := torch.Values[float32](m.Forward(torch.From([]int64{2, 5, 5, 3}, 1, 4), torch.Tensor{}, torch.Tensor{}))
		sum := 1.0
		if kind == classify.SingleLabel {
			sum = 0
			for _, x := range logits {
				sum += of(float64(x))
			}
		}
		require.Len(t, classes, 3)
		for _, c := range classes {
			assert.Equal(t, m.Head().ID2Label[c.ID], c.Label)
			assert.InDelta(t, of(float64(logits[c.ID]))/sum, c.Score, 1e-6, "%s %s", kind, c.Label)
		}
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
