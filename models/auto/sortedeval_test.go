package auto_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// outcomes returns the metrics of an evaluation in the order of the data set and of one sorted by
// length. task makes a task for a model with the same weights each time.
func outcomes[S, B any](t *testing.T, set data.Slice[S], task func() engine.Task[S, B]) (usual,
	sorted trainer.Metrics) {
	t.Helper()
	evaluate := func(byLength bool) trainer.Metrics {
		torch.ManualSeed(11)
		step, err := engine.New(task(), engine.Options{SortEvalByLength: byLength})
		require.NoError(t, err)
		tr, err := trainer.New(step, trainer.Options{EvalBatchSize: 4, Progress: io.Discard})
		require.NoError(t, err)
		m, err := tr.Evaluate(t.Context(), set)
		require.NoError(t, err)
		return m
	}
	return evaluate(false), evaluate(true)
}

func TestEvaluationsByLengthHaveTheSameMetrics(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	dir := folder(t, "bert")
	list := texts([]int{3, 9, 1, 12, 7, 3, 5, 8, 2, 11}, true)

	var toClassify data.Slice[classify.Sample]
	var toTag data.Slice[tokenclass.Sample]
	var toAnswer data.Slice[question.Sample]
	for i, x := range list {
		toClassify = append(toClassify, classify.Sample{InputIDs: x.InputIDs, Targets: []float32{float32(i) / 3, 1, 0}})
		tagged := tokenclass.Sample{Text: x}
		for k := range x.InputIDs {
			tagged.Labels = append(tagged.Labels, int64((i+k)%3))
		}
		toTag = append(toTag, tagged)
		// Two parts of each example, with different lengths, whose scores must be combined.
		example := &question.Example{ID: fmt.Sprint(i), Question: "?", Context: "abcdefghijkl",
			Answers: []question.Answer{{Text: "abc", Start: 0}}}
		for _, n := range []int{len(x.InputIDs), (len(x.InputIDs) + 1) / 2} {
			part := question.Sample{Example: example}
			part.InputIDs = x.InputIDs[:n]
			for k := range n {
				part.Offsets = append(part.Offsets, text.Span{Start: k, End: k + 1})
			}
			toAnswer = append(toAnswer, part)
		}
	}
	o := auto.Options{FromConfig: true}
	usual, sorted := outcomes(t, toClassify, func() engine.Task[classify.Sample, classify.Batch] {
		o := o
		o.ProblemType = classify.Regression
		m, err := auto.SequenceClassification(t.Context(), dir, o)
		require.NoError(t, err)
		return m.Task()
	})
	for name, want := range usual {
		assert.InDelta(t, want, sorted[name], 1e-6, "texts: "+name)
	}
	usual, sorted = outcomes(t, toTag, func() engine.Task[tokenclass.Sample, tokenclass.Batch] {
		m, err := auto.TokenClassification(t.Context(), dir, o)
		require.NoError(t, err)
		return m.Task()
	})
	delete(usual, "loss") // a mean over the tokens of each batch
	for name, want := range usual {
		assert.Equal(t, want, sorted[name], "tokens: "+name)
	}
	usual, sorted = outcomes(t, toAnswer, func() engine.Task[question.Sample, question.Batch] {
		m, err := auto.QuestionAnswering(t.Context(), dir, o)
		require.NoError(t, err)
		return m.Task()
	})
	assert.NotZero(t, usual["f1"])
	delete(usual, "loss") // padding is a possible answer, too
	for name, want := range usual {
		assert.Equal(t, want, sorted[name], "answers: "+name)
	}
}
