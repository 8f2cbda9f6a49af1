package data

import (
	"fmt"
	"math"
	"sort"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// Weighted draws the samples of an epoch at random with replacement, each as often as its weight
// says, so that rare classes are seen as often as others:
//
//	weights[i] = 1 / float64(count[classOf(i)])
//
// It is WeightedRandomSampler of torch.utils.data with a generator that manual_seed(Seed+epoch) has
// seeded, bit for bit; a single sample only is drawn in another way there.
type Weighted struct {
	Weights []float64 // of each sample, which need not add up to 1; their number must be that of the samples
	Samples int       // of an epoch; zero means as many as the data set has
	Seed    uint64
}

// Check refuses a data set that has not just as many samples as there are weights, and weights by
// which nothing can be drawn.
func (w Weighted) Check(n int) error {
	switch {
	case len(w.Weights) != n:
		return fmt.Errorf("data: Weighted has %d weights for a data set of %d samples", len(w.Weights), n)
	case w.Samples < 0:
		return fmt.Errorf("data: Weighted.Samples is %d; it must be positive, or 0 for as many as there are", w.Samples)
	}
	sum := 0.0
	for i, weight := range w.Weights {
		if !(weight >= 0 && weight <= math.MaxFloat64) {
			return fmt.Errorf("data: Weighted: the weight of sample %d is %v; it must be a number that is not negative", i,
				weight)
		}
		sum += weight
	}
	if n > 0 && !(sum > 0 && sum <= math.MaxFloat64) {
		return fmt.Errorf("data: Weighted: the weights add up to %v; nothing can be drawn by them", sum)
	}
	return nil
}

// Count returns how many samples an epoch has.
func (w Weighted) Count(n int) int {
	if w.Samples > 0 && n > 0 {
		return w.Samples
	}
	return n
}

// Indices returns the samples of the epoch; nil if Check refuses n.
func (w Weighted) Indices(epoch, n int) []int {
	if n == 0 || w.Check(n) != nil {
		return nil
	}
	ends, sum := make([]float64, n), 0.0 // where the part of each sample between 0 and 1 ends
	for i, weight := range w.Weights {
		sum += weight
		ends[i] = sum
	}
	for i := range ends {
		ends[i] /= sum
	}
	ends[n-1] = 1
	g := mt19937.New(uint32(w.Seed + uint64(epoch)))
	indices := make([]int, w.Count(n))
	for k := range indices {
		at := g.Float64()
		indices[k] = sort.Search(n-1, func(i int) bool { return ends[i] >= at })
	}
	return indices
}
