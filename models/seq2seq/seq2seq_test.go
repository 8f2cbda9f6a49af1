package seq2seq_test

import (
	"io"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/t5"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

func tiny(t *testing.T) *auto.Seq2SeqLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	m, err := auto.NewSeq2SeqLM(t5.Config{VocabSize: 20, HiddenSize: 16, KeyValueSize: 4, FeedForwardSize: 24,
		NumLayers: 1, NumHeads: 4, Dropout: new(0.0), PadTokenID: new(int64(3)), DecoderStartTokenID: new(int64(2))}, nil)
	require.NoError(t, err)
	return m
}

func sample(ids, labels []int64) seq2seq.Sample {
	return seq2seq.Sample{Text: inputs.Text{InputIDs: ids}, Labels: labels}
}

// TestABatchIsThatOfDataCollatorForSeq2Seq checks that ignored labels become padding for the
// decoder, whose inputs begin with the start token.
func TestABatchIsThatOfDataCollatorForSeq2Seq(t *testing.T) {
	task := tiny(t).Task()
	b, err := task.Collate([]seq2seq.Sample{sample([]int64{5, 6}, []int64{7, -100, 8, 1}),
		sample([]int64{9, 10, 1}, []int64{11, 1})})
	require.NoError(t, err)
	assert.Equal(t, []int64{5, 6, 3, 9, 10, 1}, b.InputIDs.Values)
	assert.Equal(t, []int64{1, 1, 0, 1, 1, 1}, b.AttentionMask.Values)
	assert.Equal(t, []int64{7, -100, 8, 1, 11, 1, -100, -100}, b.Labels.Values)
	assert.Equal(t, []int64{2, 7, 3, 8, 2, 11, 1, 3}, b.DecoderIDs.Values)
	assert.EqualValues(t, 5, task.CountItems(b))
	all, nonPadding := task.CountTokens(b)
	assert.EqualValues(t, 6, all)
	assert.EqualValues(t, 5, nonPadding)
	assert.Equal(t, 3, task.Length(sample([]int64{1, 2, 3}, nil)))
}

// TestWindowsAreAveragedOverTheirTokens checks that the result does not depend on the batch size.
func TestWindowsAreAveragedOverTheirTokens(t *testing.T) {
	samples := []seq2seq.Sample{sample([]int64{5, 6}, []int64{7, 8, 9, 1}), sample([]int64{9, 1}, []int64{1}),
		sample([]int64{4}, []int64{5, 1}), sample([]int64{4, 4, 4}, []int64{6, 1})}
	weights := func(batch, accumulate int) (list []torch.Named) {
		m := tiny(t)
		step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.SGD{LR: 0.1}})
		require.NoError(t, err)
		fit, err := trainer.New(step, trainer.Options{MaxSteps: 1, BatchSize: batch, Accumulate: accumulate,
			Order: data.Sequential{}, Progress: io.Discard, Save: trainer.Never})
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), data.Slice[seq2seq.Sample](samples), nil)
		require.NoError(t, err)
		return nn.Params(m)
	}
	whole, parts := weights(4, 1), weights(1, 4)
	for i, p := range parts {
		assert.True(t, p.Tensor.AllClose(whole[i].Tensor, 1e-4, 1e-6, false), p.Name)
	}
}

// TestTextsThatHaveEndedWait checks that texts generated in a batch are the same as when they are
// generated alone.
func TestTextsThatHaveEndedWait(t *testing.T) {
	m := tiny(t)
	torch.NoGrad(func() { m.InputEmbeddings().Weight.MulScalar_(3) })
	texts := []inputs.Text{{InputIDs: []int64{5, 6, 7, 8}}, {InputIDs: []int64{9}}, {InputIDs: []int64{12, 13, 1}}}
	for _, g := range []auto.Generation{{MaxNewTokens: 9}, {MaxNewTokens: 9, RepetitionPenalty: 2},
		{MaxNewTokens: 9, EOSTokenIDs: []int64{}}, {MaxNewTokens: 9, NumBeams: 3},
		{MaxNewTokens: 9, NumBeams: 4, LengthPenalty: new(2.0)},
		{MaxNewTokens: 9, NumBeams: 2, EOSTokenIDs: []int64{1, 4, 5, 6, 7}}, {MaxNewTokens: 1, NumBeams: 5},
		{MaxNewTokens: 9, NumBeams: 3, EarlyStopping: auto.EarlyStoppingTrue, EOSTokenIDs: []int64{}}} {
		together, err := m.GenerateIDs(t.Context(), texts, g)
		require.NoError(t, err)
		require.Len(t, together, 3)
		for i, text := range texts {
			alone, err := m.GenerateIDs(t.Context(), []inputs.Text{text}, g)
			require.NoError(t, err)
			assert.Equal(t, alone[0], together[i])
		}
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	m := tiny(t)
	task := m.Task()
	for want, s := range map[string]seq2seq.Sample{
		"seq2seq: sample 0 of the batch: InputIDs is empty":          sample(nil, []int64{1}),
		"token 0 has the id 20, but the vocabulary":                  sample([]int64{20}, []int64{1}),
		"Labels is empty; even an empty text":                        sample([]int64{1}, nil),
		"label 1 is 20; want an id of the vocabulary of 20, or -100": sample([]int64{1}, []int64{-100, 20}),
	} {
		_, err := task.Collate([]seq2seq.Sample{s})
		require.ErrorContains(t, err, want)
	}
	_, err := seq2seq.NewTask(m, seq2seq.TaskOptions{Metrics: []metrics.Metric[string]{&metrics.ExactMatch{}}})
	require.ErrorContains(t, err, "Write and Metrics go together")
	_, err = seq2seq.NewTask(m, seq2seq.TaskOptions{TargetPadding: data.Padding{Left: true}})
	require.ErrorContains(t, err, "pad on the right")
	_, err = m.Writer(auto.Generation{})
	require.ErrorContains(t, err, "the model has no tokenizer")
	_, err = m.GenerateIDs(t.Context(), []inputs.Text{{InputIDs: []int64{1}}}, auto.Generation{TopK: 3})
	require.ErrorContains(t, err, "set Sample")
	for want, g := range map[string]auto.Generation{
		"NumBeams is 0":        {LengthPenalty: new(2.0)},
		"NumBeams is 1":        {NumBeams: 1, EarlyStopping: auto.EarlyStoppingTrue},
		"NumBeams is -1; want": {NumBeams: -1},
		"LengthPenalty is NaN": {NumBeams: 3, LengthPenalty: new(math.NaN())},
	} {
		_, err = m.GenerateIDs(t.Context(), []inputs.Text{{InputIDs: []int64{1}}}, g)
		require.ErrorContains(t, err, want)
	}
	_, err = m.GenerateIDs(t.Context(), nil, auto.Generation{})
	require.ErrorContains(t, err, "no texts to generate from")
	_, err = m.GenerateIDs(t.Context(), []inputs.Text{{InputIDs: []int64{21}}}, auto.Generation{})
	require.ErrorContains(t, err, "token 0 has the id 21")
	_, err = m.Generate(t.Context(), "text", auto.Generation{})
	require.ErrorContains(t, err, "the model has no tokenizer")
	err = torch.Try(func() { m.Forward(torch.Zeros(1, 1), torch.Tensor{}, torch.Tensor{}) })
	require.ErrorContains(t, err, "ForwardPair")
	require.ErrorContains(t, m.SetPaddingFree(true), "cannot leave padding out")
	require.ErrorContains(t, m.FuseQKVProjections(true), "have no fused")
}
