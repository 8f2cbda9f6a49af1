package data

import "github.com/gotrainer/gotrainer/internal/mt19937"

// Order says in which order the samples of an epoch are visited. It is a pure function of the
// epoch: a run that is resumed in the middle of an epoch calls it again and must get the same
// result.
//
// Indices returns the indices of the samples, each in [0, n), in the order in which they are
// visited. It returns n indices unless the order also implements [Counter]. The caller owns the
// slice.
type Order interface {
	Indices(epoch, n int) []int
}

// Counter is implemented by an [Order] that visits more or fewer samples than the data set has, as
// sampling with replacement does.
type Counter interface {
	// Count returns the number of indices in Indices(epoch, n), which is the same in every epoch.
	Count(n int) int
}

// Checker is implemented by an [Order] that does not suit every data set.
type Checker interface {
	// Check returns an error if the order cannot be used for a data set of n samples.
	Check(n int) error
}

// OrderFunc makes an [Order] from a function.
type OrderFunc func(epoch, n int) []int

// Indices calls f.
func (f OrderFunc) Indices(epoch, n int) []int { return f(epoch, n) }

// Sequential visits the samples in their own order: 0, 1, 2, ... It is PyTorch's SequentialSampler.
type Sequential struct{}

// Indices returns 0 to n-1.
func (Sequential) Indices(_, n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// Shuffled visits the samples in a new random order in each epoch: torch.randperm(n) of a CPU
// generator seeded with Seed+epoch. Bit for bit, it is the order of Accelerate's
// SeedableRandomSampler, and so that of Hugging Face's Trainer with the same seed (data_seed if
// that is set). For a negative seed in Python, use its two's complement. A [Loader] draws the order
// batch by batch, using four bytes of memory per sample.
type Shuffled struct {
	Seed uint64
}

// Indices returns the permutation of the epoch.
func (s Shuffled) Indices(epoch, n int) []int { return Permutation(s.Seed+uint64(epoch), n) }

// Permutation returns torch.randperm(n) of a CPU generator seeded with seed by manual_seed.
func Permutation(seed uint64, n int) []int {
	return permute(mt19937.New(uint32(seed)), n) // like PyTorch, whose engine uses only the lower 32 bits of the seed
}

// permute returns torch.randperm(n) of a generator.
func permute(g *mt19937.Source, n int) []int {
	indices := Sequential{}.Indices(0, n)
	if n >= largePermutation {
		// At this size PyTorch draws 64 bits, since 32 would be visibly biased, and uses the
		// inside-out variant of the shuffle. Too large for a test; it was compared once with torch
		// 2.11 for n = 214748365.
		for i := range n {
			j := int(g.Uint64() % uint64(i+1))
			indices[i] = indices[j]
			indices[j] = i
		}
		return indices
	}
	for i := range n - 1 {
		j := i + int(g.Uint32()%uint32(n-i))
		indices[i], indices[j] = indices[j], indices[i]
	}
	return indices
}
