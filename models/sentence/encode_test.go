package sentence_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/sentence"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestSeveralGoroutinesEncodeWhatOneDoes(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{}) // in training mode, with dropout
	want, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
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
	m := r.model(t, "Bert", sentence.Pooling{})
	encode := func(text string, o sentence.EncodeOptions) []float32 {
		t.Helper()
		got, err := m.Encode(t.Context(), []string{text}, o)
		require.NoError(t, err)
		return got[0]
	}
	plain := encode("w7", sentence.EncodeOptions{})
	m.Prompts = map[string]string{"query": "w20 ", "corpus": "w22 "}
	m.DefaultPromptName = "query"
	asked := encode("w20 w7", sentence.EncodeOptions{Prompt: new("")})
	assert.NotEqual(t, plain, asked)
	assert.Equal(t, asked, encode("w7", sentence.EncodeOptions{}), "the default")
	assert.Equal(t, plain, encode("w7", sentence.EncodeOptions{Prompt: new("")}), "none")
	assert.Equal(t, asked, encode("w7", sentence.EncodeOptions{PromptName: "query"}))
	document, err := m.EncodeDocument(t.Context(), []string{"w7"}, sentence.EncodeOptions{})
	require.NoError(t, err)
	assert.Equal(t, encode("w7", sentence.EncodeOptions{PromptName: "corpus"}), document[0])
	query, err := m.EncodeQuery(t.Context(), []string{"w7"}, sentence.EncodeOptions{Prompt: new("")})
	require.NoError(t, err)
	assert.Equal(t, plain, query[0])

	_, err = m.Encode(t.Context(), nil, sentence.EncodeOptions{PromptName: "answer"})
	require.ErrorContains(t, err, `there is no prompt "answer"; the model has ["corpus" "query"]`)
	_, err = m.Encode(t.Context(), nil, sentence.EncodeOptions{PromptName: "query", Prompt: new("")})
	require.ErrorContains(t, err, "want one")
}

func TestEncodeRefusesAndEnds(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{})
	none, err := m.Encode(t.Context(), nil, sentence.EncodeOptions{})
	require.NoError(t, err)
	assert.Empty(t, none)
	for _, o := range []sentence.EncodeOptions{{BatchSize: -1}, {TruncateDim: -1}} {
		_, err = m.Encode(t.Context(), r.Texts, o)
		require.ErrorContains(t, err, "want numbers above 0")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = m.Encode(ctx, r.Texts, sentence.EncodeOptions{})
	require.EqualError(t, err, "enough")
	m.MaxSeqLength = -1
	_, err = m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.ErrorContains(t, err, "MaxSeqLength is -1")
	_, err = m.Similarity([][]float32{{1, 2}}, [][]float32{{1}})
	require.ErrorContains(t, err, "embeddings of 2 and of 1 numbers")
	_, err = m.SimilarityPairwise([][]float32{{1}, {2}}, [][]float32{{1}})
	require.ErrorContains(t, err, "there are 2 and 1 embeddings")
	m.SimilarityFn = "maxsim"
	_, err = m.Similarity([][]float32{{1}}, [][]float32{{1}})
	require.ErrorContains(t, err, `no similarity function "maxsim"`)
}

func TestPaddingFreeEmbeddingsAreThoseOfThePaddedBatch(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{Modes: []sentence.PoolingMode{sentence.Mean, sentence.Max, sentence.CLS}})
	want, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	require.NoError(t, m.SetPaddingFree(true))
	got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	for i := range want {
		assert.InDeltaSlice(t, want[i], got[i], 1e-5)
	}
}

func TestSamplesAndTasksAreRefused(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{})
	for want, o := range map[string]sentence.TaskOptions{
		"found -1":   {Loss: sentence.MultipleNegativesRankingLoss{Scale: -1}},
		"QueryToDoc": {Loss: sentence.MultipleNegativesRankingLoss{Directions: []sentence.Direction{"up"}}},
		`want "query_to_doc" among Directions`: {Loss: sentence.MultipleNegativesRankingLoss{
			Directions: []sentence.Direction{sentence.DocToQuery}}},
		"no positive pair to normalize with": {Loss: sentence.MultipleNegativesRankingLoss{
			Directions: []sentence.Direction{sentence.QueryToDoc, sentence.DocToDoc}, PerDirection: true}},
		`no distance "far"`: {Loss: sentence.TripletLoss{Distance: "far"}},
		"found NaN":         {Loss: sentence.CoSENTLoss{Scale: math.NaN()}},
		"found 33":          {Loss: sentence.MatryoshkaLoss{Loss: sentence.CoSENTLoss{}, Dims: []int{33}}},
		"Loss is nil":       {Loss: sentence.MatryoshkaLoss{Dims: []int{3}}},
		"1 Weights for 2 Dims": {Loss: sentence.MatryoshkaLoss{Loss: sentence.CoSENTLoss{}, Dims: []int{3, 4},
			Weights: []float64{1}}},
		`no similarity function "up"`: {Loss: sentence.CoSENTLoss{Similarity: "up"}},
		"pad on the right":            {Padding: data.Padding{Left: true}},
		"TripletEvaluator has 1":      {Evaluators: []sentence.Evaluator{sentence.TripletEvaluator{Anchors: []string{"a"}}}},
		"2 at least":                  {Evaluators: []sentence.Evaluator{sentence.EmbeddingSimilarityEvaluator{}}},
		"0 queries":                   {Evaluators: []sentence.Evaluator{sentence.InformationRetrievalEvaluator{}}},
	} {
		_, err := sentence.NewTask(m, o)
		if want == "QueryToDoc" {
			want = `no direction "up"`
		}
		require.ErrorContains(t, err, want)
	}
	pair, err := m.Sample("w7", "w8")
	require.NoError(t, err)
	three, err := m.Sample("w7", "w8", "w9")
	require.NoError(t, err)
	nan := pair
	nan.Score = float32(math.NaN())
	foreign := pair
	foreign.Texts = append([]sentence.Text{}, pair.Texts...)
	foreign.Texts[1].InputIDs = []int64{2, 99, 3}
	type samples = []sentence.Sample
	cosent, ranking := sentence.CoSENTLoss{}, sentence.MultipleNegativesRankingLoss{}
	for want, c := range map[string]struct {
		loss    sentence.Loss
		samples samples
	}{
		"sample 1 of the batch: there are 3 texts; a sentence.CoSENTLoss wants 2": {cosent, samples{pair, three}},
		"there are 2 texts; a sentence.TripletLoss wants 3":                       {sentence.TripletLoss{}, samples{pair}},
		"the first sample has 2": {ranking, samples{pair, three}},
		"Score is no number":     {cosent, samples{nan}},
		"Target has 0 numbers, but an embedding of the model has 32":                 {sentence.MSELoss{}, samples{pair}},
		"sample 1 of the batch: text 1: token 1 has the id 99":                       {cosent, samples{pair, foreign}},
		"there are 0 texts; a sentence.MultipleNegativesRankingLoss wants 2 or more": {ranking, samples{{}}},
	} {
		task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: c.loss})
		require.NoError(t, err)
		_, err = task.Collate(c.samples)
		require.ErrorContains(t, err, want)
	}
	task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: ranking})
	require.NoError(t, err)
	batch, err := task.Collate(samples{pair, pair})
	require.NoError(t, err)
	err = torch.Try(func() { task.Loss(engine.ForwardPass{Part: true}, batch) })
	require.ErrorContains(t, err, "leave DivideOnOutOfMemory out")

	_, err = engine.New(task, engine.Options{LabelSmoothing: 0.1})
	require.ErrorContains(t, err, "embeddings have no classes")

	_, err = sentence.New(nil, sentence.Pooling{})
	require.ErrorContains(t, err, "the encoder is nil")
	_, err = sentence.New(m.EncoderModel, sentence.Pooling{Modes: []sentence.PoolingMode{}})
	require.ErrorContains(t, err, "modes of the pooling are empty")
	_, err = sentence.NewDense(3, 3, sentence.DenseOptions{Activation: "sin"})
	require.ErrorContains(t, err, `no activation "sin"`)
	d, err := sentence.NewDense(3, 3, sentence.DenseOptions{})
	require.NoError(t, err)
	_, err = sentence.New(m.EncoderModel, sentence.Pooling{}, d)
	require.ErrorContains(t, err, "takes embeddings of 3 numbers, but gets 32")
}

func TestLossesUnderAutocast(t *testing.T) {
	r := load(t)
	for _, c := range r.Losses {
		m := r.model(t, "Bert", sentence.Pooling{})
		task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: lossesByName[c.Name]})
		require.NoError(t, err)
		batch, err := task.Collate(r.samples(t, m, c.Texts, c.Label, nil)[:6])
		require.NoError(t, err)
		nn.SetTraining(m, false)
		want := task.Loss(engine.ForwardPass{}, batch).Value.Item()
		var loss torch.Tensor
		amp.Autocast(torch.CPU, amp.BF16, func() { loss = task.Loss(engine.ForwardPass{}, batch).Value })
		loss.Backward()
		assert.InDelta(t, want, loss.Item(), 0.1+0.1*want, c.Name)
	}
}

func TestWeightsInBFloat16(t *testing.T) {
	r := load(t)
	want := r.values.Tensor("saved")
	m, err := sentence.Load(t.Context(), "testdata/saved", auto.Options{DType: torch.BFloat16, Warnings: quiet{t}})
	require.NoError(t, err)
	got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
	require.NoError(t, err)
	for i, row := range got {
		assert.InDeltaSlice(t, torch.Values[float32](want.Select(0, int64(i)).Contiguous()), row, 0.05)
	}
}
