package data

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// sequence returns the indices of an epoch in order, one per call, so that the first batch of a
// large data set does not wait until the whole order is known.
type sequence func() int

// sequenceOf returns the order of an epoch as a sequence, or nil if o cannot be generated index by
// index. It requires the exact type: a type that embeds it may have another order.
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

// largePermutation is the number of items from which PyTorch uses another algorithm; see permute.
const largePermutation = math.MaxUint32 / 20

// permutation is [Permutation] index by index, for n less than largePermutation. It uses four bytes
// of memory per index, and the operating system never allocates pages that no draw has touched: an
// entry is the XOR of the index and its position, which is zero at first.
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
		moved[j] = moved[i] ^ uint32(i) ^ uint32(j) // position i is not read again
		return int(index)
	}
}

// sequenceIn returns the given indices as a sequence.
func sequenceIn(indices []int) sequence {
	next := 0
	return func() int { next++; return indices[next-1] }
}

// batches divides an epoch of total indices into batches. It returns a function that returns the
// batches of this process one by one, without the first skip. The function writes each batch into
// the slice it is given, growing it if necessary, and returns nil after the last.
func (s Shard) batches(next sequence, total, size int, dropLast bool, skip int) func(into []int) []int {
	world := max(1, s.WorldSize)
	round := size * world // indices dealt out to all processes at a time
	if s.SplitBatches {
		round = size
		size /= world
	}
	fill := world > 1 && !dropLast && !s.Uneven && total%round > 0
	var begin []int // first round of the epoch, which fills up the last
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
				return nil // not every process would get a full batch
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
