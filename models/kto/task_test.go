package kto_test

import (
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/kto"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// tiny is a small Llama without a tokenizer.
func tiny(t *testing.T) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(5)
	m, err := auto.NewCausalLM(llama.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 2, NumHeads: 2, NumKeyValueHeads: 2,
		IntermediateSize: 24, MaxPositions: 16}, nil)
	require.NoError(t, err)
	return m
}

func sample(label bool, ids ...int64) kto.Sample {
	return kto.Sample{PromptIDs: []int64{2, 3}, CompletionIDs: ids, Label: label}
}

func ktoTask(t *testing.T, m *auto.CausalLanguageModel, o kto.TaskOptions) *kto.Task {
	t.Helper()
	task, err := m.KTOTask(o)
	require.NoError(t, err)
	return task
}

// lossOf returns the loss of samples, what is logged, and the gradients.
func lossOf(t *testing.T, task *kto.Task, samples ...kto.Sample) (loss float64, logged []float64,
	grads []torch.Tensor) {
	t.Helper()
	b, err := task.Collate(samples)
	require.NoError(t, err)
	l := task.Loss(engine.ForwardPass{}, b)
	l.Value.Backward()
	for _, p := range nn.Params(task.Model()) {
		if p.Tensor.NeedsGrad() {
			grads = append(grads, p.Tensor.Grad().Clone())
			p.Tensor.Grad().Zero_()
		}
	}
	return l.Value.Item(), torch.Values[float64](l.Logged), grads
}

// TestOnlyTheTokensOfCompletionsAreScored gives the same numbers as all of them, as a GPU does.
func TestOnlyTheTokensOfCompletionsAreScored(t *testing.T) {
	m := tiny(t)
	task := ktoTask(t, m, kto.TaskOptions{})
	samples := []kto.Sample{sample(true, 4, 5, 1), sample(false, 6, 1), sample(true, 7, 8, 9, 1)}
	want, logged, grads := lossOf(t, task, samples...)
	assert.InDelta(t, 0.5, want, 1e-6, "the model is the reference")
	logprob.Compact = true
	t.Cleanup(func() { logprob.Compact = false })
	got, again, others := lossOf(t, task, samples...)
	assert.InDelta(t, want, got, 1e-6)
	assert.InDeltaSlice(t, logged, again, 1e-5)
	for i, g := range grads {
		assert.True(t, g.AllClose(others[i], 1e-4, 1e-6, false))
	}
}

func TestABatchOfOneKindHasNoNumbersOfTheOther(t *testing.T) {
	task := ktoTask(t, tiny(t), kto.TaskOptions{})
	_, logged, _ := lossOf(t, task, sample(true, 4, 1), sample(true, 5, 6, 1))
	for i, name := range task.TrainingLogs() {
		switch name {
		case "logits/rejected", "rewards/rejected", "rewards/margins", "logps/rejected":
			assert.True(t, math.IsNaN(logged[i]), name)
		default:
			assert.False(t, math.IsNaN(logged[i]), name)
		}
	}
	b, err := task.Collate([]kto.Sample{sample(false, 4, 1)})
	require.NoError(t, err)
	torch.NoGrad(func() { task.Evaluate(engine.ForwardPass{}, b) })
	m := task.Metrics()
	assert.Contains(t, m, "rewards/rejected")
	assert.NotContains(t, m, "rewards/chosen")
	assert.NotContains(t, m, "rewards/margins")
	assert.Nil(t, task.Metrics())
}

func TestBalance(t *testing.T) {
	assert.InDelta(t, 0.5, kto.Balance([]kto.Sample{{Label: true}, {Label: true}, {}}), 0)
	assert.InDelta(t, 1, kto.Balance(nil), 0)
	assert.InDelta(t, 2, kto.Balance([]kto.Sample{{}, {}}), 0)
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	m := tiny(t)
	for want, o := range map[string]kto.TaskOptions{
		`TaskOptions.LossType is "dpo"; want "kto" or`:              {LossType: "dpo"},
		"TaskOptions.Beta is -1":                                    {Beta: -1},
		"TaskOptions.Beta is NaN":                                   {Beta: math.NaN()},
		"TaskOptions.DesirableWeight is -1 and UndesirableWeight 1": {DesirableWeight: new(-1.0)},
		"TaskOptions.MaxLength is 17; want 2 to 16":                 {MaxLength: 17},
		"TaskOptions.MaxLength is 1; want 2 to 16":                  {MaxLength: 1},
	} {
		_, err := m.KTOTask(o)
		require.ErrorContains(t, err, "kto: "+want)
	}
	_, err := kto.NewTask(m, kto.TaskOptions{})
	require.ErrorContains(t, err, "KTOTask of package auto makes the reference")
	task := ktoTask(t, m, kto.TaskOptions{MaxLength: 6})
	long := sample(true, 1)
	long.PromptIDs = []int64{1, 2, 3, 4, 5, 6}
	assert.Empty(t, task.Keep([]kto.Sample{long}))
	for want, s := range map[string]kto.Sample{
		"CompletionIDs is empty":                      sample(true),
		"the prompt has 6 tokens, and TaskOptions":    long,
		"there is no prompt, and a completion of one": {CompletionIDs: []int64{1}},
		"20": sample(true, 20),
		"-1": {PromptIDs: []int64{-1}, CompletionIDs: []int64{1}},
	} {
		_, err := task.Collate([]kto.Sample{sample(true, 1), s})
		require.ErrorContains(t, err, "kto: sample 1 of the batch: ")
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	_, err = engine.New(ktoTask(t, m, kto.TaskOptions{Reference: dpo.Reference{
		Run: func(f func(dpo.Model)) { f(m) }, Swaps: true}}), engine.Options{Sharding: shard.FullShard})
	require.ErrorContains(t, err, "kto: Options.Sharding is set")
}

// TestABatchOfOneIsRefused, as in TRL: its completion would be compared with itself.
func TestABatchOfOneIsRefused(t *testing.T) {
	samples := data.Slice[kto.Sample]{sample(true, 4), sample(false, 5, 6), sample(true, 7)}
	fit := func(kind kto.LossType, size int) error {
		step, err := engine.New(ktoTask(t, tiny(t), kto.TaskOptions{LossType: kind}), engine.Options{})
		require.NoError(t, err)
		run, err := trainer.New(step, trainer.Options{BatchSize: size, EvalBatchSize: 1, MaxSteps: 2, Save: trainer.Never,
			Progress: io.Discard})
		require.NoError(t, err)
		_, err = run.Fit(t.Context(), samples, samples)
		return err
	}
	require.ErrorContains(t, fit(kto.KTO, 1), "kto: BatchSize is 1, and the loss kto compares each prompt")
	require.NoError(t, fit(kto.KTO, 2), "the last batch of the epoch has one sample")
	require.NoError(t, fit(kto.APOZeroUnpaired, 1))
}
