package data

import (
	"math/bits"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// PythonShuffled visits the samples in the order that Python's random.shuffle gives a list after
// random.seed(Seed). The order is the same in every epoch. It is the order of Hezar's trainer,
// whose sampler is seeded again in each epoch.
type PythonShuffled struct {
	Seed uint64
}

// Indices returns the permutation, which does not depend on the epoch.
func (s PythonShuffled) Indices(_, n int) []int {
	key := []uint32{uint32(s.Seed)}
	if upper := uint32(s.Seed >> 32); upper != 0 {
		key = append(key, upper)
	}
	g := mt19937.NewFromKey(key)
	indices := Sequential{}.Indices(0, n)
	for i := n - 1; i > 0; i-- {
		j := below(g, uint64(i+1))
		indices[i], indices[j] = indices[j], indices[i]
	}
	return indices
}

// below returns a number in [0, n) as Python's random does: the upper bits of a draw, which is
// repeated while they are too large.
func below(g *mt19937.Source, n uint64) uint64 {
	k := bits.Len64(n)
	for {
		var x uint64
		if k <= 32 {
			x = uint64(g.Uint32() >> (32 - k))
		} else { // the first word is the lower half
			x = uint64(g.Uint32())
			x |= uint64(g.Uint32()>>(64-k)) << 32
		}
		if x < n {
			return x
		}
	}
}
