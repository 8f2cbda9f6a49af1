package data

import (
	"fmt"
	"math"
	"sort"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// Weighted draws the samples of an epoch at random with replacement, with probabilities
// proportional to their weights, so that rare classes can be seen as often as others:
//
//	weights[i] = 1 / float64(count[classOf(i)])
//
// Bit for bit, it is WeightedRandomSampler of torch.utils.data with a generator seeded by
// manual_seed(Seed+epoch), except that PyTorch draws a single sample in another way.
type Weighted struct {
	Weights []float64 // weight of each sample; need not add up to 1; there must be as many as samples
	Samples int       // samples in an epoch; zero means as many as the data set has
	Seed    uint64
}

// Check refuses a data set whose number of samples differs from the number of weights, and weights
// from which nothing can be drawn.
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
		return fmt.Errorf("data: Weighted: the weights add up to %v; nothing can be drawn with them", sum)
	}
	return nil
}

// Count returns the number of samples in an epoch.
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
	ends, sum := make([]float64, n), 0.0 // cumulative weights, scaled to end at 1
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
