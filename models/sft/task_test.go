package sft_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// tiny is a small Llama without a tokenizer.
func tiny(t *testing.T, experts llama.Experts, kind string) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(5)
	m, err := auto.NewCausalLM(llama.Config{Type: kind, VocabSize: 20, HiddenSize: 16, NumLayers: 2, NumHeads: 2,
		NumKeyValueHeads: 2, IntermediateSize: 24, MaxPositions: 16, Experts: experts}, nil)
	require.NoError(t, err)
	return m
}

func newTask(t *testing.T, m *auto.CausalLanguageModel, o sft.TaskOptions) *sft.Task {
	t.Helper()
	task, err := m.SFTTask(o)
	require.NoError(t, err)
	return task
}

func sample(ids, labels []int64) sft.Sample {
	return sft.Sample{Text: inputs.Text{InputIDs: ids}, Labels: labels}
}

const none = inputs.IgnoreIndex

var samples = []sft.Sample{
	sample([]int64{2, 3, 4, 5, 1}, []int64{none, none, 4, 5, 1}),
	sample([]int64{2, 6, 1}, nil),
	sample([]int64{2, 7, 8, 9, 10, 11, 1}, []int64{none, none, none, none, none, 11, 1}),
}

// lossOf returns the loss of samples and the gradients.
func lossOf(t *testing.T, loss func(b sft.Batch) engine.Loss, m *auto.CausalLanguageModel, b sft.Batch) (float64,
	[]torch.Tensor) {
	t.Helper()
	l := loss(b)
	l.Value.Backward()
	var grads []torch.Tensor
	for _, p := range nn.Params(m) {
		grads = append(grads, p.Tensor.Grad().Clone())
		p.Tensor.Grad().Zero_()
	}
	return l.Value.Item(), grads
}

// TestTheLossIsThatOfCausallm: but for rounding, also if only the learned tokens are scored, as on
// a GPU, and when the divisor is that of several micro-batches.
func TestTheLossIsThatOfCausallm(t *testing.T) {
	t.Cleanup(func() { logprob.Compact = false })
	m := tiny(t, llama.Experts{}, "")
	task, other := newTask(t, m, sft.TaskOptions{}), m.Task()
	b, err := task.Collate(samples)
	require.NoError(t, err)
	same, err := other.Collate(samples)
	require.NoError(t, err)
	assert.Equal(t, same, b)
	for _, p := range []engine.ForwardPass{{}, {Items: 11}} {
		want, grads := lossOf(t, func(b causallm.Batch) engine.Loss { return other.Loss(p, b) }, m, b)
		for _, compact := range []bool{false, true} {
			logprob.Compact = compact
			got, others := lossOf(t, func(b sft.Batch) engine.Loss { return task.Loss(p, b) }, m, b)
			assert.InDelta(t, want, got, 1e-6)
			for i, g := range grads {
				assert.True(t, g.AllClose(others[i], 1e-4, 1e-6, false), "gradient %d", i)
			}
		}
	}
	assert.EqualValues(t, 3+2+2, task.CountItems(b))
}

func TestLongTextsAreCut(t *testing.T) {
	task := newTask(t, tiny(t, llama.Experts{}, ""), sft.TaskOptions{MaxLength: 5})
	b, err := task.Collate(samples)
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 7, 8, 9, 10}, b.InputIDs.Row(2))
	assert.Len(t, samples[2].InputIDs, 7, "the sample itself is whole")
	assert.Equal(t, 5, task.Length(samples[2]))
	assert.Equal(t, samples[:2], task.Keep(samples), "nothing is left to learn of the third")
	nothing, err := task.Collate(samples[2:])
	require.NoError(t, err)
	torch.NoGrad(func() {
		assert.Zero(t, task.Evaluate(engine.ForwardPass{}, nothing).Value.Item())
		assert.Nil(t, task.Metrics(), "no token was learned")
		l := task.Loss(engine.ForwardPass{}, nothing)
		assert.Equal(t, []float64{0, 0}, torch.Values[float64](l.Logged))
	})
}

func TestLongTextsAreCutAtTheirStart(t *testing.T) {
	task := newTask(t, tiny(t, llama.Experts{}, ""), sft.TaskOptions{MaxLength: 5, KeepEnd: true})
	b, err := task.Collate(samples)
	require.NoError(t, err)
	assert.Equal(t, []int64{8, 9, 10, 11, 1}, b.InputIDs.Row(2))
	assert.Equal(t, []int64{none, none, none, 11, 1}, b.Labels.Row(2))
	assert.Equal(t, []int64{2, 3, 4, 5, 1}, b.InputIDs.Row(0))
	assert.Equal(t, samples, task.Keep(samples), "the answer is at the end")
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	m := tiny(t, llama.Experts{}, "")
	for want, o := range map[string]sft.TaskOptions{
		`sft: TaskOptions.LossType is "dpo"; want one of ["nll" "dft"]`: {LossType: "dpo"},
		"sft: TaskOptions.MaxLength is 17; want 2 to 16":                {MaxLength: 17},
	} {
		_, err := m.SFTTask(o)
		require.ErrorContains(t, err, want)
	}
	task := newTask(t, m, sft.TaskOptions{})
	for want, s := range map[string]sft.Sample{
		"label 1 is 4, and the token there is 3; want the token": sample([]int64{2, 3}, []int64{2, 4}),
		"Labels has 1 numbers for 2 tokens":                      sample([]int64{2, 3}, []int64{2}),
		"20":                                                     sample([]int64{2, 20}, nil),
	} {
		_, err := task.Collate([]sft.Sample{samples[0], s})
		require.ErrorContains(t, err, "sample 1 of the batch: ")
		require.ErrorContains(t, err, want)
	}
	mixture := tiny(t, llama.Experts{Number: 2, PerToken: 1, OutputRouterLogits: true}, "mixtral")
	_, err := mixture.SFTTask(sft.TaskOptions{})
	require.ErrorContains(t, err, "sft: output_router_logits is true")
}
