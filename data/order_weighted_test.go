package data_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
)

// TestWeightedIsPyTorchs expects the result of torch 2.11 for
//
//	list(WeightedRandomSampler(weights, n, generator=torch.Generator().manual_seed(seed)))
func TestWeightedIsPyTorchs(t *testing.T) {
	w := data.Weighted{Weights: []float64{0.1, 0.9, 0.4, 0.7, 3, 0, 0.6}, Samples: 12, Seed: 42}
	assert.Equal(t, []int{1, 1, 1, 1, 4, 4, 6, 6, 1, 1, 1, 4}, w.Indices(0, 7))
	w.Samples = 0
	assert.Equal(t, []int{4, 3, 2, 4, 6, 4, 1}, w.Indices(1, 7), "seed 43")
}

func TestWeightedDrawsByItsWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		weights := rapid.SliceOfN(rapid.IntRange(0, 3), n, n).Draw(t, "weights")
		w := data.Weighted{Weights: make([]float64, n), Samples: 20_000, Seed: rapid.Uint64().Draw(t, "seed")}
		total := 0
		for i, weight := range weights {
			w.Weights[i] = float64(weight) / 7
			total += weight
		}
		if total == 0 {
			assert.ErrorContains(t, w.Check(n), "add up to 0")
			return
		}
		seen := make([]int, n)
		for _, i := range w.Indices(0, n) {
			seen[i]++
		}
		for i, weight := range weights {
			p := float64(weight) / float64(total)
			assert.InDelta(t, p*20_000, float64(seen[i]), 6*math.Sqrt(20_000*p*(1-p)), "%d of weight %d", i, weight)
		}
	})
}

func TestWeightedInALoader(t *testing.T) {
	set := data.Slice[int]{0, 1, 2, 3}
	batches := func(w data.Weighted) (all [][]int, err error) {
		collate := func(s []int) ([]int, error) { return s, nil }
		l, err := data.NewLoader(set, collate, data.LoaderOptions{BatchSize: 4, Order: w})
		require.NoError(t, err)
		for b, err := range l.Epoch(t.Context(), 0, 0) {
			if err != nil {
				return nil, err
			}
			all = append(all, b)
		}
		assert.Len(t, all, l.Len())
		return all, nil
	}
	got, err := batches(data.Weighted{Weights: []float64{0, 0, 1, 0}, Samples: 6})
	require.NoError(t, err)
	assert.Equal(t, [][]int{{2, 2, 2, 2}, {2, 2}}, got)
	for _, c := range []struct {
		w    data.Weighted
		want string
	}{
		{data.Weighted{Weights: []float64{1}}, "1 weights for a data set of 4 samples"},
		{data.Weighted{Weights: []float64{1, -1, 1, 1}}, "the weight of sample 1 is -1"},
		{data.Weighted{Weights: []float64{1, 1, math.NaN(), 1}}, "the weight of sample 2 is NaN"},
		{data.Weighted{Weights: []float64{1, 1, 1, math.Inf(1)}}, "the weight of sample 3 is +Inf"},
		{data.Weighted{Weights: make([]float64, 4)}, "the weights add up to 0"},
		{data.Weighted{Weights: []float64{1, 1, 1, 1}, Samples: -1}, "Weighted.Samples is -1"},
	} {
		_, err := batches(c.w)
		require.ErrorContains(t, err, c.want)
	}
	set = nil
	got, err = batches(data.Weighted{})
	require.NoError(t, err)
	assert.Empty(t, got)
}
