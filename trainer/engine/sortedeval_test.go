package engine_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// sortable is a task whose samples have lengths and whose loss is the mean over samples. It records
// the row of each.
type sortable struct {
	*tagTask
	engine.Observations[noted]
	computed atomic.Int64 // tokens of all batches, including padding
	rows     []int        // rows recorded when the evaluation ended
}

type noted struct{ Row int }

func (t *sortable) Length(s tokens) int { return len(s.ids) }

func (t *sortable) Collate(samples []tokens) (tokenBatch, error) {
	b, err := collateTokens(samples)
	t.computed.Add(int64(len(b.ids)))
	return b, err
}

func (t *sortable) Observe(b tokenBatch, _ engine.Outputs) {
	for _, row := range b.rows {
		t.Note(noted{row})
	}
}

func (t *sortable) Metrics() map[string]float64 {
	t.rows = nil
	for _, s := range t.Noted() {
		t.rows = append(t.rows, s.Row)
	}
	return map[string]float64{"noted": float64(len(t.rows))}
}

func (t *sortable) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	shape := o.Labels[0].Shape()
	each := crossEntropy(o, torch.ReductionNone).View(shape...)
	n := o.Labels[0].NeScalar(engine.IgnoreIndex).ToDType(torch.Float32)
	return engine.Mean(each.SumDim([]int64{1}, false, torch.DefaultDType).Div(n.SumDim([]int64{1}, false,
		torch.DefaultDType)).Mean(torch.DefaultDType), o.Rows)
}

func raggedSet(lengths ...int) data.Slice[tokens] {
	var set data.Slice[tokens]
	for row, n := range lengths {
		s := tokens{row: row}
		for i := range n {
			s.ids, s.labels = append(s.ids, int64(1+(row+3*i)%19)), append(s.labels, int64((row+i)%4))
		}
		set = append(set, s)
	}
	return set
}

// evaluated predicts a set with a new model made with a fixed seed.
func evaluated(t require.TestingT, set data.Slice[tokens], sorted bool, o trainer.Options) (*sortable, trainer.Logs,
	*engine.Predictions) {
	torch.ManualSeed(5)
	task := &sortable{tagTask: &tagTask{newTagger(0)}}
	step, err := engine.New[tokens, tokenBatch](task, engine.Options{SortEvalByLength: sorted, EvalAccumulation: 2})
	require.NoError(t, err)
	o.Progress = io.Discard
	tr, err := trainer.New(step, o)
	require.NoError(t, err)
	p, err := tr.Predict(context.Background(), set, "")
	require.NoError(t, err)
	return task, p.Metrics, step.Predictions()
}

func TestAnEvaluationByLengthHasTheOutcomeOfTheSetsOrder(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	rapid.Check(t, func(rt *rapid.T) {
		set := raggedSet(rapid.SliceOfN(rapid.IntRange(1, 9), 1, 20).Draw(rt, "lengths")...)
		o := trainer.Options{EvalBatchSize: rapid.IntRange(1, 6).Draw(rt, "batch"),
			LimitEvalBatches: rapid.IntRange(0, 4).Draw(rt, "limit")}
		usual, want, predicted := evaluated(rt, set, false, o)
		sorted, got, same := evaluated(rt, set, true, o)
		defer predicted.Free()
		defer same.Free()
		assert.Equal(rt, usual.rows, sorted.rows)
		assert.Equal(rt, want["test_noted"], got["test_noted"])
		assert.InDelta(rt, want["test_loss"], got["test_loss"], 1e-6)
		assert.Equal(rt, predicted.Rows, same.Rows)
		padding := predicted.Labels[0].Eq(torch.Full(engine.IgnoreIndex).ToDType(torch.Int64)).Unsqueeze(2)
		golden.Close(t, "logits", same.Logits[0].MaskedFill(padding, 0), predicted.Logits[0].MaskedFill(padding, 0), 1e-5,
			1e-6) // what is predicted for padding depends on the width of the batch
		assert.Equal(rt, torch.Values[int64](predicted.Labels[0]), torch.Values[int64](same.Labels[0]))
		if o.LimitEvalBatches == 0 && len(set)%o.EvalBatchSize == 0 { // a short batch may or may not have the short samples
			assert.LessOrEqual(rt, sorted.computed.Load(), usual.computed.Load())
		}
	})
}

func TestAnEvaluationByLengthHasLittlePadding(t *testing.T) {
	testenv.RequireTorch(t)
	lengths := slices.Repeat([]int{1, 9}, 8) // half of each batch is padding, unless they are sorted
	usual, _, a := evaluated(t, raggedSet(lengths...), false, trainer.Options{EvalBatchSize: 8})
	sorted, _, b := evaluated(t, raggedSet(lengths...), true, trainer.Options{EvalBatchSize: 8})
	a.Free()
	b.Free()
	assert.EqualValues(t, 9*16, usual.computed.Load())
	assert.EqualValues(t, 9*8+1*8, sorted.computed.Load())
}

// unsorted records what it sees but cannot reorder it.
type unsorted struct{ *tagTask }

func (unsorted) Length(s tokens) int                { return len(s.ids) }
func (unsorted) Observe(tokenBatch, engine.Outputs) {}
func (unsorted) Metrics() map[string]float64        { return nil }

func TestWhatCannotBeEvaluatedByLengthSaysSo(t *testing.T) {
	testenv.RequireTorch(t)
	o := engine.Options{SortEvalByLength: true}
	_, err := engine.New[tokens, tokenBatch](&tagTask{newTagger(0)}, o)
	require.ErrorContains(t, err, "it must implement engine.Lengther")
	_, err = engine.New[tokens, tokenBatch](unsorted{&tagTask{newTagger(0)}}, o)
	require.ErrorContains(t, err, "it must implement engine.ObservationSorter")

	step, err := engine.New[tokens, tokenBatch](&sortable{tagTask: &tagTask{newTagger(0)}}, o)
	require.NoError(t, err)
	evaluate := func(set data.Dataset[tokens], o trainer.Options) error {
		o.Progress = io.Discard
		tr, err := trainer.New(step, o)
		require.NoError(t, err)
		_, err = tr.Evaluate(t.Context(), set)
		return err
	}
	set := raggedSet(3, 1, 2)
	require.ErrorContains(t, evaluate(set, trainer.Options{EvalOrder: data.Shuffled{}}), "want one of them")
	require.ErrorContains(t, evaluate(set, trainer.Options{BadSample: func(int, error) error { return nil }}),
		"want one of them")
	stream := trainer.EvalStream[tokens]{Stream: data.StreamOf[tokens](set, nil)}
	require.ErrorContains(t, evaluate(stream, trainer.Options{}), "the samples of a stream cannot be sorted")
	broken := data.Func(3, func(i int) (tokens, error) { return tokens{}, fmt.Errorf("no row %d", i) })
	require.ErrorContains(t, evaluate(broken, trainer.Options{}),
		"the length of sample 0 (Options.SortEvalByLength): no row 0")
	require.NoError(t, evaluate(set, trainer.Options{}), "after all this")
}

func TestNotesOfOtherThanAllSamplesAreNotSorted(t *testing.T) {
	var n engine.Observations[noted]
	require.NoError(t, n.SortObserved([]int{1, 0}), "nothing was noted")
	n.Note(noted{4}, noted{5}, noted{6})
	require.NoError(t, n.SortObserved([]int{2, 0, 1}))
	assert.Equal(t, []noted{{5}, {6}, {4}}, n.Noted())
	n.Note(noted{4})
	require.ErrorContains(t, n.SortObserved([]int{1, 0}), "1 samples were noted of the 2")
}
