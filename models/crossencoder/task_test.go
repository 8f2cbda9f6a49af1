package crossencoder_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/models/crossencoder"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestSeveralGoroutinesPredictWhatOneDoes(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", 1)
	nn.SetTraining(m, true) // with dropout
	want := predicted(t, m, r.Pairs)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				got, err := m.Predict(t.Context(), r.Pairs, crossencoder.PredictOptions{BatchSize: 4})
				if !assert.NoError(t, err) || !assert.Equal(t, want, got) {
					return
				}
			}
		})
	}
	all.Wait()
	assert.True(t, m.Training(), "the mode is restored")
}

func TestPrompts(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", 1)
	one := func(query string, o crossencoder.PredictOptions) float32 {
		t.Helper()
		got, err := m.Predict(t.Context(), [][2]string{{query, "w9"}}, o)
		require.NoError(t, err)
		return got[0][0]
	}
	plain := one("w7", crossencoder.PredictOptions{})
	m.Prompts, m.DefaultPromptName = map[string]string{"query": "w20 ", "other": "w22 "}, "query"
	asked := one("w20 w7", crossencoder.PredictOptions{Prompt: new("")})
	assert.NotEqual(t, plain, asked)
	assert.Equal(t, asked, one("w7", crossencoder.PredictOptions{}), "the default")
	assert.Equal(t, plain, one("w7", crossencoder.PredictOptions{Prompt: new("")}), "none")
	assert.Equal(t, asked, one("w7", crossencoder.PredictOptions{PromptName: "query"}))
	assert.Equal(t, one("w22 w7", crossencoder.PredictOptions{Prompt: new("")}),
		one("w7", crossencoder.PredictOptions{PromptName: "other"}))

	_, err := m.Predict(t.Context(), nil, crossencoder.PredictOptions{PromptName: "answer"})
	require.ErrorContains(t, err, `there is no prompt "answer"; the model has ["other" "query"]`)
	_, err = m.Predict(t.Context(), nil, crossencoder.PredictOptions{PromptName: "query", Prompt: new("")})
	require.ErrorContains(t, err, "want one")
}

func TestPredictRefusesAndEnds(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", 1)
	assert.Empty(t, predicted(t, m, nil))
	_, err := m.Predict(t.Context(), r.Pairs, crossencoder.PredictOptions{BatchSize: -1})
	require.ErrorContains(t, err, "BatchSize is -1")
	_, err = m.Predict(t.Context(), r.Pairs, crossencoder.PredictOptions{ActivationFn: "Softmax"})
	require.ErrorContains(t, err, `no activation "Softmax"`)
	_, err = m.Rank(t.Context(), "w7", []string{"w8"}, crossencoder.RankOptions{TopK: -1})
	require.ErrorContains(t, err, "TopK is -1")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = m.Predict(ctx, r.Pairs, crossencoder.PredictOptions{})
	require.EqualError(t, err, "enough")
	m.MaxLength = -1
	_, err = m.Predict(t.Context(), r.Pairs, crossencoder.PredictOptions{})
	require.ErrorContains(t, err, "MaxLength is -1")
	m.MaxLength, m.ActivationFn = 0, "sin"
	require.ErrorContains(t, m.Save(t.TempDir()), `no activation "sin"`)
	m.Tokenizer = nil
	_, err = m.Predict(t.Context(), r.Pairs, crossencoder.PredictOptions{ActivationFn: crossencoder.Identity})
	require.ErrorContains(t, err, "no tokenizer")
}

func TestPaddingFreeScoresAreThoseOfThePaddedBatch(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", 3)
	want := predicted(t, m, r.Pairs)
	require.NoError(t, m.SetPaddingFree(true))
	for i, got := range predicted(t, m, r.Pairs) {
		assert.InDeltaSlice(t, want[i], got, 1e-5)
	}
}

// own is a loss of a program: the first document's logit should exceed the second's.
type own struct{ lists bool }

func (o own) Wants() crossencoder.Wants {
	return crossencoder.Wants{Documents: 2, OneLabel: true, Lists: o.lists}
}

func (own) Of(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	if labels.Defined() {
		panic("no labels were asked for")
	}
	return logits[1].Sub(logits[0]).Mean(torch.DefaultDType)
}

func TestLossOfAProgram(t *testing.T) {
	r := load(t)
	task, err := crossencoder.NewTask(r.model(t, "Bert", 1), crossencoder.TaskOptions{Loss: own{}})
	require.NoError(t, err)
	b, err := task.Collate(r.samples(samples{Documents: 2})[:3])
	require.NoError(t, err)
	l := task.Loss(engine.ForwardPass{}, b)
	l.Value.Backward()
	assert.False(t, math.IsNaN(l.Value.Item()))
	all, nonPadding := task.CountTokens(b)
	assert.Less(t, nonPadding, all)
}

// TestCachedLossInEvaluation is that of training, and of the loss without mini-batches.
func TestCachedLossInEvaluation(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", 1) // in evaluation mode
	inner := crossencoder.MultipleNegativesRankingLoss{NumNegatives: 3}
	of := func(l crossencoder.Loss) (training, evaluation float64) {
		task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: l})
		require.NoError(t, err)
		b, err := task.Collate(r.samples(samples{Documents: 3})[:6])
		require.NoError(t, err)
		torch.ManualSeed(3)
		training = task.Loss(engine.ForwardPass{}, b).Value.Item()
		torch.ManualSeed(3)
		torch.NoGrad(func() {
			evaluation = task.LossOf(engine.ForwardPass{}, task.Predict(engine.ForwardPass{}, b)).Value.Item()
		})
		return training, evaluation
	}
	want, _ := of(inner)
	training, evaluation := of(crossencoder.CachedMultipleNegativesRankingLoss{MultipleNegativesRankingLoss: inner,
		MiniBatchSize: 7})
	assert.InDelta(t, want, training, 1e-5)
	assert.InDelta(t, want, evaluation, 1e-5)
}

func TestSamplesAndTasksAreRefused(t *testing.T) {
	r := load(t)
	m, classes := r.model(t, "Bert", 1), r.model(t, "Bert", 3)
	pairs := [][2]string{{"w7", "w8"}, {"w7", "w9"}}
	for want, o := range map[string]crossencoder.TaskOptions{
		"PosWeight is -1":         {Loss: crossencoder.BinaryCrossEntropyLoss{PosWeight: -1}},
		"MiniBatchSize above 0":   {Loss: crossencoder.CachedMultipleNegativesRankingLoss{MiniBatchSize: -1}},
		"want ScoreLabels":        {Loss: own{lists: true}},
		"found NaN":               {Loss: crossencoder.MultipleNegativesRankingLoss{Scale: math.NaN()}},
		`no activation "up"`:      {Loss: crossencoder.MSELoss{ActivationFn: "up"}},
		"Sigma is -1":             {Loss: crossencoder.RankNetLoss{Sigma: -1}},
		`no weighting scheme "x"`: {Loss: crossencoder.LambdaLoss{Weighting: "x"}},
		"there are no classes":    {Loss: crossencoder.CrossEntropyLoss{}},
		"pad on the right":        {Padding: data.Padding{Left: true}},
		"1 pairs and 0 labels": {Evaluators: []crossencoder.Evaluator{
			crossencoder.CrossEncoderClassificationEvaluator{Pairs: pairs[:1]}}},
		"label 1 is 2; want 0 to 1": {Evaluators: []crossencoder.Evaluator{
			crossencoder.CrossEncoderClassificationEvaluator{Pairs: pairs, Labels: []int{1, 2}}}},
		"2 at least": {Evaluators: []crossencoder.Evaluator{crossencoder.CrossEncoderCorrelationEvaluator{}}},
		"BatchSize is -1": {Evaluators: []crossencoder.Evaluator{crossencoder.CrossEncoderCorrelationEvaluator{Pairs: pairs,
			Scores: []float64{0, 1}, EvaluatorOptions: crossencoder.EvaluatorOptions{BatchSize: -1}}}},
		`no prompt "query"`: {Evaluators: []crossencoder.Evaluator{crossencoder.CrossEncoderCorrelationEvaluator{Pairs: pairs,
			Scores: []float64{0, 1}, EvaluatorOptions: crossencoder.EvaluatorOptions{PromptName: "query"}}}},
		"has no samples": {Evaluators: []crossencoder.Evaluator{crossencoder.CrossEncoderRerankingEvaluator{}}},
		"sample 0 has 0 Negative and 0 Documents": {Evaluators: []crossencoder.Evaluator{
			crossencoder.CrossEncoderRerankingEvaluator{Samples: make([]crossencoder.RerankingSample, 1)}}},
	} {
		_, err := crossencoder.NewTask(m, o)
		require.ErrorContains(t, err, want)
	}
	for want, o := range map[string]crossencoder.TaskOptions{
		"MSELoss: the model has 3 labels; want one": {Loss: crossencoder.MSELoss{}},
		"the model has 3 labels; want one, which is the score": {Evaluators: []crossencoder.Evaluator{
			crossencoder.CrossEncoderCorrelationEvaluator{Pairs: pairs, Scores: []float64{0, 1}}}},
	} {
		_, err := crossencoder.NewTask(classes, o)
		require.ErrorContains(t, err, want)
	}

	type list = []crossencoder.Sample
	two := []string{"w8", "w9"}
	for want, c := range map[string]struct {
		loss    crossencoder.Loss
		samples list
	}{
		"sample 1 of the batch: there are 0 documents; a crossencoder.MSELoss wants 1": {crossencoder.MSELoss{},
			list{{Documents: two[:1], Labels: []float32{1}}, {}}},
		"there are 2 documents; a crossencoder.MSELoss wants 1": {crossencoder.MSELoss{}, list{{Documents: two}}},
		"there are 1 documents; a crossencoder.MarginMSELoss wants 2 or more": {crossencoder.MarginMSELoss{},
			list{{Documents: two[:1]}}},
		"there are 3 Labels for 2 documents; want 2 scores, or 1 differences": {crossencoder.MarginMSELoss{},
			list{{Documents: two, Labels: make([]float32, 3)}}},
		"there are 0 Labels for 1 documents; want one for each": {crossencoder.MSELoss{}, list{{Documents: two[:1]}}},
		"there are 1 Labels for 2 documents; want one for each": {crossencoder.ListNetLoss{},
			list{{Documents: two, Labels: []float32{1}}}},
		"but the first sample has 2": {crossencoder.MultipleNegativesRankingLoss{},
			list{{Documents: two}, {Documents: two[:1]}}},
		"Labels[0] is NaN": {crossencoder.MSELoss{}, list{{Documents: two[:1], Labels: []float32{float32(math.NaN())}}}},
	} {
		task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: c.loss})
		require.NoError(t, err)
		_, err = task.Collate(c.samples)
		require.ErrorContains(t, err, want)
	}
	task, err := crossencoder.NewTask(classes, crossencoder.TaskOptions{})
	require.NoError(t, err)
	_, err = task.Collate(list{{Documents: two[:1], Class: 3}})
	require.ErrorContains(t, err, "Class is 3; want 0 to 2")
	_, err = engine.New(task, engine.Options{LabelSmoothing: 0.1})
	require.ErrorContains(t, err, "LabelSmoothing is 0.1")

	task, err = crossencoder.NewTask(m, crossencoder.TaskOptions{
		Loss: crossencoder.CachedMultipleNegativesRankingLoss{}})
	require.NoError(t, err)
	_, err = engine.New(task, engine.Options{Sharding: shard.FullShard})
	require.ErrorContains(t, err, "crossencoder: Options.Sharding is")
	require.NoError(t, task.ValidateGroup(1))
	require.ErrorContains(t, task.ValidateGroup(2), "crossencoder: a crossencoder.CachedMultipleNegativesRankingLoss adds")

	task, err = crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: crossencoder.MultipleNegativesRankingLoss{}})
	require.NoError(t, err)
	require.NoError(t, task.ValidateGroup(2))
	b, err := task.Collate(list{{Query: "w7", Documents: two}})
	require.NoError(t, err)
	loss := task.Loss(engine.ForwardPass{}, b).Value.Item()
	assert.Greater(t, loss, 0.0, "a batch of one has its own negatives only")
	err = torch.Try(func() { task.Loss(engine.ForwardPass{Part: true}, b) })
	require.ErrorContains(t, err, "cannot be trained in parts")
}
