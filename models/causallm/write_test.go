package causallm_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

const none = inputs.IgnoreIndex

// observe evaluates a batch with a task.
func observe(t *testing.T, task *causallm.Task, samples ...causallm.Sample) error {
	t.Helper()
	b, err := task.Collate(samples)
	require.NoError(t, err)
	return torch.Try(func() {
		torch.Scope(func() { task.Observe(b, task.Predict(engine.ForwardPass{}, b)) })
	})
}

// TestEvaluationsContinueWhatIsInFrontOfTheLastAnswer also checks that the results are compared
// with Target.
func TestEvaluationsContinueWhatIsInFrontOfTheLastAnswer(t *testing.T) {
	var prompts inputs.Batch
	task := newTask(t, causallm.TaskOptions{Metrics: []metrics.Metric[string]{&metrics.ExactMatch{}},
		Write: func(_ engine.ForwardPass, b inputs.Batch) []string {
			prompts = b
			return []string{"right", "wrong", "right"}
		}})
	answer := func(target string, labels []int64, ids ...int64) causallm.Sample {
		s := sample(ids...)
		s.Labels, s.Target = labels, target
		return s
	}
	masked := answer("right", []int64{none, none, 7}, 9, 6, 7)
	masked.AttentionMask = []int64{0, 1, 1}
	require.NoError(t, observe(t, task, answer("right", []int64{none, 2, none, 4, 5, none}, 1, 2, 3, 4, 5, 6),
		answer("other", []int64{none, 8}, 7, 8), masked))
	assert.Equal(t, []int64{1, 2, 3, 7, 19, 19, 6, 19, 19}, prompts.InputIDs.Values)
	assert.Equal(t, []int64{1, 1, 1, 1, 0, 0, 1, 0, 0}, prompts.AttentionMask.Values)
	assert.InDelta(t, 2.0/3, task.Metrics()["exact_match"], 1e-9)

	err := observe(t, task, answer("right", []int64{none, 8}, 7, 8), sample(1, 2))
	require.ErrorContains(t, err, "causallm: sample 1 of the batch: it has no prompt to write behind")
	err = observe(t, newTask(t, causallm.TaskOptions{}), sample(1, 2))
	require.NoError(t, err, "without Write, samples need no prompts")

	m, err := auto.NewCausalLM(gpt2.Config{VocabSize: 20, MaxPositions: 8, HiddenSize: 8, NumLayers: 1, NumHeads: 2}, nil)
	require.NoError(t, err)
	_, err = causallm.NewTask(m, causallm.TaskOptions{Metrics: []metrics.Metric[string]{&metrics.ExactMatch{}}})
	require.ErrorContains(t, err, "causallm: TaskOptions.Write and Metrics go together")
	_, err = m.Writer(auto.Generation{})
	require.ErrorContains(t, err, "the model has no tokenizer")
}

// writer returns a model with a vocabulary of words, in a folder with a generation_config.json.
func writer(t *testing.T, file string) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	tok, err := text.TrainByteLevel(slices.Values([]string{"the quick brown fox jumps over the lazy dog"}),
		text.TrainOptions{VocabSize: 280})
	require.NoError(t, err)
	torch.ManualSeed(2)
	m, err := auto.NewCausalLM(gpt2.Config{VocabSize: int64(tok.VocabSize()), MaxPositions: 24, HiddenSize: 16,
		NumLayers: 1, NumHeads: 2, EOSTokenIDs: []int64{0}}, tok)
	require.NoError(t, err)
	torch.NoGrad(func() { m.InputEmbeddings().Weight.MulScalar_(20) })
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(file), 0o600))
	m, err = auto.CausalLM(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	return m
}

// TestAnEvaluationWritesWhatGenerateDoes compares texts generated in batches.
func TestAnEvaluationWritesWhatGenerateDoes(t *testing.T) {
	m := writer(t, `{"max_length": 14, "repetition_penalty": 1.2}`)
	prompts := []string{"the", "quick brown", "a dog"}
	var texts []inputs.Text
	for _, p := range prompts {
		e, err := m.Tokenizer.Encode(p, nil)
		require.NoError(t, err)
		texts = append(texts, inputs.Text{InputIDs: e.IDs})
	}
	b, err := m.Limits().Collate("test", texts, data.Padding{})
	require.NoError(t, err)
	for _, g := range []auto.Generation{{MaxNewTokens: 6}, {MaxNewTokens: 6, NumBeams: 3}, {}} {
		write, err := m.Writer(g)
		require.NoError(t, err)
		want, err := m.GenerateBatch(context.Background(), prompts, g)
		require.NoError(t, err)
		assert.Equal(t, want, write(engine.ForwardPass{}, b))
	}
	write, err := m.Writer(auto.Generation{})
	require.NoError(t, err)
	long, err := m.Limits().Collate("test", []inputs.Text{{InputIDs: make([]int64, 14)}}, data.Padding{})
	require.NoError(t, err)
	err = torch.Try(func() { write(engine.ForwardPass{}, long) })
	require.ErrorContains(t, err, "max_length of generation_config.json is 14, and a prompt has 14 tokens")
	for want, g := range map[string]auto.Generation{
		"Stream is for one text": {Stream: func(string) {}},
		"NumReturnSequences is":  {NumReturnSequences: 2},
		"set Sample":             {TopK: 3},
	} {
		_, err = m.Writer(g)
		require.ErrorContains(t, err, want)
	}
}

// TestCompletionsAreLearnedWithTheirEnd also checks that prompts have no labels.
func TestCompletionsAreLearnedWithTheirEnd(t *testing.T) {
	m := writer(t, `{}`)
	s, err := m.EncodeCompletion("the föx", " jumps")
	require.NoError(t, err)
	from, to := s.Answer()
	assert.Equal(t, len(s.InputIDs), to)
	assert.EqualValues(t, 0, s.InputIDs[to-1], "the end of a text")
	assert.Equal(t, "the föx", m.Tokenizer.Decode(s.InputIDs[:from], nil))
	assert.Equal(t, " jumps", m.Tokenizer.Decode(s.InputIDs[from:to], nil))
	assert.Equal(t, " jumps", s.Target)
	for i, label := range s.Labels {
		if want := s.InputIDs[i]; i >= from {
			assert.Equal(t, want, label)
		} else {
			assert.EqualValues(t, none, label)
		}
	}
	s, err = m.EncodeCompletion("the lazy dog", " x y z v w x y z v w x y z")
	require.NoError(t, err)
	assert.Len(t, s.InputIDs, 24, "what the model takes")
	assert.NotEqualValues(t, 0, s.InputIDs[23], "a sample that was cut has no end token")
}

// TestEvaluationsInLowPrecisionWrite: the cached keys and values have the dtype of the weights.
func TestEvaluationsInLowPrecisionWrite(t *testing.T) {
	tok := writer(t, `{}`).Tokenizer
	for _, kind := range []string{"llama", "gemma2", "mistral"} {
		m, err := auto.NewCausalLM(llama.Config{Type: kind, VocabSize: int64(tok.VocabSize()), HiddenSize: 16, NumLayers: 1,
			IntermediateSize: 16, NumHeads: 2, NumKeyValueHeads: 1, HeadDim: 8, MaxPositions: 24, EOSTokenIDs: []int64{0}}, tok)
		require.NoError(t, err)
		for _, g := range []auto.Generation{{MaxNewTokens: 5}, {MaxNewTokens: 5, NumBeams: 2}} {
			write, err := m.Writer(g)
			require.NoError(t, err)
			task, err := causallm.NewTask(m, causallm.TaskOptions{Write: write,
				Metrics: []metrics.Metric[string]{&metrics.ExactMatch{}}})
			require.NoError(t, err)
			step, err := engine.New(task, engine.Options{Precision: amp.BF16})
			require.NoError(t, err)
			fit, err := trainer.New(step, trainer.Options{OutputDir: t.TempDir(), Epochs: 1, Progress: io.Discard,
				Save: trainer.Never})
			require.NoError(t, err)
			var samples []causallm.Sample
			for _, words := range []string{"the quick", "fox", "lazy dog"} {
				s, err := m.EncodeCompletion(words, " jumps")
				require.NoError(t, err)
				samples = append(samples, s)
			}
			set := data.Slice[causallm.Sample](samples)
			result, err := fit.Fit(t.Context(), set, set)
			require.NoError(t, err, kind)
			assert.Contains(t, result.Best.Metrics, "eval_exact_match")
		}
	}
}
