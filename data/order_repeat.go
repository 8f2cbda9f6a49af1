package data

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// RepeatSampler visits the samples in chunks, each chunk several times in a row, for reinforcement
// learning that reuses generated completions. Samples that do not fill a chunk are dropped. It is
// TRL's RepeatSampler with a mini_repeat_count of 1.
//
// The samples are reshuffled in each epoch. The permutation of epoch e is the one that
// torch.randperm(n) returns when it is called for the (e+1)th time with a generator seeded with
// Seed.
type RepeatSampler struct {
	Chunk      int  // samples
	Times      int  // how often each chunk is visited; zero: once
	Unshuffled bool // keeps the samples in their own order
	Seed       uint64
}

// Check refuses a data set that does not fill one chunk.
func (r RepeatSampler) Check(n int) error {
	switch {
	case r.Chunk < 1 || r.Times < 0:
		return fmt.Errorf("data: RepeatSampler has chunks of %d samples, %d times each; want at least 1 sample, and a "+
			"number of times that is not negative", r.Chunk, r.Times)
	case n < r.Chunk:
		return fmt.Errorf("data: RepeatSampler has chunks of %d samples, which a data set of %d does not fill", r.Chunk, n)
	}
	return nil
}

// Count returns the number of samples in an epoch.
func (r RepeatSampler) Count(n int) int {
	if r.Check(n) != nil {
		return 0
	}
	return n / r.Chunk * r.Chunk * max(1, r.Times)
}

// Indices returns the samples of the epoch; nil if Check refuses n.
func (r RepeatSampler) Indices(epoch, n int) []int {
	if r.Check(n) != nil {
		return nil
	}
	indices := Sequential{}.Indices(epoch, n)
	if !r.Unshuffled {
		for g := mt19937.New(uint32(r.Seed)); epoch >= 0; epoch-- {
			indices = permute(g, n)
		}
	}
	all := make([]int, 0, r.Count(n))
	for chunk := range slices.Chunk(indices[:n/r.Chunk*r.Chunk], r.Chunk) {
		for range max(1, r.Times) {
			all = append(all, chunk...)
		}
	}
	return all
}
