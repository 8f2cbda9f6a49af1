package causallm_test

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

func newTask(t *testing.T, o causallm.TaskOptions) *causallm.Task {
	t.Helper()
	testenv.RequireTorch(t)
	m, err := auto.NewCausalLM(gpt2.Config{VocabSize: 20, MaxPositions: 8, HiddenSize: 8, NumLayers: 1, NumHeads: 2,
		EOSTokenIDs: []int64{19}}, nil)
	require.NoError(t, err)
	task, err := causallm.NewTask(m, o)
	require.NoError(t, err)
	return task
}

func sample(ids ...int64) causallm.Sample { return causallm.Sample{Text: inputs.Text{InputIDs: ids}} }

func TestBlocksAreTheTextsBehindOneAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.SliceOfN(rapid.Int64Range(0, 99), 0, 20)).Draw(t, "texts")
		size := rapid.IntRange(2, 9).Draw(t, "size")
		blocks, err := causallm.Blocks(texts, size)
		require.NoError(t, err)
		all := slices.Concat(texts...)
		require.Len(t, blocks, len(all)/size)
		for i, b := range blocks {
			require.Equal(t, all[i*size:][:size], b.InputIDs)
		}
	})
	_, err := causallm.Blocks(nil, 1)
	require.ErrorContains(t, err, "blocks of 1 tokens; want at least 2")
}

func TestLabelsAreTheTokensThatAreNoPadding(t *testing.T) {
	task := newTask(t, causallm.TaskOptions{})
	const none = inputs.IgnoreIndex
	left := sample(1, 2, 3)
	left.AttentionMask = []int64{0, 1, 1}
	answer := sample(4, 5, 6, 19)
	answer.Labels = []int64{none, none, 6, 19}
	b, err := task.Collate([]causallm.Sample{sample(7, 19), left, answer})
	require.NoError(t, err)
	assert.Equal(t, []int64{7, 19, none, none, none, 2, 3, none, none, none, 6, 19}, b.Labels.Values,
		"a text's own end counts, although it is the token that fills batches up")
	assert.EqualValues(t, 1+2+2, task.CountItems(b), "the first token of a text is not predicted")
	assert.EqualValues(t, 2+2+2, newTask(t, causallm.TaskOptions{CountFirstToken: true}).CountItems(b))
	all, nonPadding := task.CountTokens(b)
	assert.EqualValues(t, [2]int64{12, 8}, [2]int64{all, nonPadding})
}

func TestLossIsTheMeanOverTheWindow(t *testing.T) {
	task := newTask(t, causallm.TaskOptions{})
	torch.Scope(func() {
		b, err := task.Collate([]causallm.Sample{sample(1, 2, 3), sample(4, 5)})
		require.NoError(t, err)
		o := task.Predict(engine.ForwardPass{}, b)
		logs := o.Logits[0].LogSoftmax(-1, torch.DefaultDType)
		at := func(row, place, token int64) float64 {
			return logs.Select(0, row).Select(0, place).Select(0, token).Item()
		}
		sum := -at(0, 0, 2) - at(0, 1, 3) - at(1, 0, 5)
		assert.InDelta(t, sum/3, task.LossOf(engine.ForwardPass{}, o).Value.Item(), 1e-5)
		assert.InDelta(t, sum/10, task.LossOf(engine.ForwardPass{Items: 10}, o).Value.Item(), 1e-5)

		b, err = task.Collate([]causallm.Sample{sample(1), sample(4)})
		require.NoError(t, err)
		loss := task.Loss(engine.ForwardPass{}, b).Value.Item()
		assert.False(t, math.IsNaN(loss), "no text has tokens to predict")
		assert.Zero(t, loss)
	})
}

func TestSamplesThatTheModelCannotTakeAreRefused(t *testing.T) {
	task := newTask(t, causallm.TaskOptions{})
	labelled := func(labels ...int64) causallm.Sample {
		s := sample(1, 2)
		s.Labels = labels
		return s
	}
	for words, s := range map[string]causallm.Sample{
		"InputIDs is empty":          sample(),
		"token 1 has the id 20":      sample(1, 20),
		"has 9 tokens":               sample(1, 2, 3, 4, 5, 6, 7, 8, 9),
		"Labels has 1 numbers for 2": labelled(1),
		"label 1 is 20; want an id":  labelled(1, 20),
		"label 0 is -1; want an id":  labelled(-1, 2),
	} {
		_, err := task.Collate([]causallm.Sample{sample(1, 2), s})
		require.ErrorContains(t, err, "causallm: sample 1 of the batch: ")
		require.ErrorContains(t, err, words)
	}
	m, err := auto.NewCausalLM(gpt2.Config{VocabSize: 20, MaxPositions: 8, HiddenSize: 8, NumLayers: 1, NumHeads: 2}, nil)
	require.NoError(t, err)
	_, err = causallm.NewTask(m, causallm.TaskOptions{Padding: data.Padding{Left: true}})
	require.ErrorContains(t, err, "pad on the right")
}
