package metrics_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/metrics"
)

// A comparison with sentence-transformers, over embeddings, is in models/sentence.

func TestRetrievalOfOneQuery(t *testing.T) {
	r := metrics.Retrieval{AccuracyAt: []int{1, 2}, PrecisionRecallAt: []int{4}, MRRAt: []int{1, 3}, NDCGAt: []int{3},
		MAPAt: []int{3}}
	assert.Equal(t, "ndcg@3", r.Name())
	assert.Equal(t, 4, r.MaxK())
	r.Add([]string{"no", "a", "b", "neither"}, []string{"a", "b", "c"})
	r.Add([]string{"whatever"}, nil) // nothing is relevant, so it is left out
	best := 1 + 1/math.Log2(3) + 1.0/2
	want := map[string]float64{"accuracy@1": 0, "accuracy@2": 1, "precision@4": 0.5, "recall@4": 2.0 / 3, "mrr@1": 0,
		"mrr@3": 0.5, "ndcg@3": (1/math.Log2(3) + 1.0/2) / best, "map@3": (1.0/2 + 2.0/3) / 3}
	assert.InDeltaMapValues(t, want, r.Result(), 1e-12)
}

func TestRetrievalIsTheMeanOverQueries(t *testing.T) {
	var r metrics.Retrieval
	r.Add([]string{"a"}, []string{"a"})
	r.Add(nil, []string{"a"})
	result := r.Result()
	assert.Len(t, result, 15)
	for _, name := range []string{r.Name(), "mrr@10", "map@100", "accuracy@1", "recall@3"} {
		assert.Equal(t, 0.5, result[name], name)
	}
	assert.Equal(t, 0.05, result["precision@10"])
	r.Reset()
	assert.Equal(t, map[string]float64{"ndcg@10": 0}, r.Result())
}
