package data

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// sequence hands out the indices of an epoch in their order, each once it is wanted, so that the
// first batch of a large data set does not wait for the last.
type sequence func() int

// sequenceOf is what o visits, if that can be had index by index; else nil. It goes by the type
// itself: one that embeds it may have an order of its own.
func sequenceOf(o Order, epoch, n int) sequence {
	switch o := o.(type) {
	case Sequential:
		next := 0
		return func() int { next++; return next - 1 }
	case Shuffled:
		if n < largePermutation {
			return permutation(o.Seed+uint64(epoch), n)
		}
	}
	return nil
}

// largePermutation is the number of items from which PyTorch draws another kind of permutation.
const largePermutation = math.MaxUint32 / 20

// permutation is [Permutation] index by index, of less than largePermutation. Its memory has four
// bytes for each index, and pages of it that no draw has touched are not there yet: an index is
// kept as how it differs from its place, which is zero at first.
func permutation(seed uint64, n int) sequence {
	g := mt19937.New(uint32(seed))
	moved := make([]uint32, n)
	i := -1
	return func() int {
		i++
		j := i
		if i < n-1 {
			j += int(g.Uint32() % uint32(n-i))
		}
		index := moved[j] ^ uint32(j)
		moved[j] = moved[i] ^ uint32(i) ^ uint32(j) // the place i is not looked at again
		return int(index)
	}
}

// sequenceIn hands out indices that are there already.
func sequenceIn(indices []int) sequence {
	next := 0
	return func() int { next++; return indices[next-1] }
}

// batches divides the indices of an epoch of so many, and leaves out the first batches that the
// process would see. The function puts the next batch into the memory that it is given, or into more;
// it returns nil after the last.
func (s Shard) batches(next sequence, total, size int, dropLast bool, skip int) func(into []int) []int {
	world := max(1, s.WorldSize)
	round := size * world // indices that are dealt out together
	if s.SplitBatches {
		round = size
		size /= world
	}
	fill := world > 1 && !dropLast && !s.Uneven && total%round > 0
	var begin []int // of the epoch, which fill up its end
	dealt := make([]int, 0, min(round, total))
	at := 0
	return func(into []int) []int {
		for at < total {
			dealt = dealt[:0]
			for range min(round, total-at) {
				dealt = append(dealt, next())
			}
			if fill && at == 0 {
				begin = slices.Clone(dealt)
			}
			at += len(dealt)
			if len(dealt) < round && dropLast {
				return nil // not every process would have a whole one
			}
			for i := 0; fill && len(dealt) < round; i++ {
				dealt = append(dealt, begin[i%len(begin)])
			}
			mine := dealt[min(s.Rank*size, len(dealt)):min((s.Rank+1)*size, len(dealt))]
			if len(mine) == 0 {
				return nil
			}
			if skip--; skip < 0 {
				return append(into[:0], mine...)
			}
		}
		return nil
	}
}
