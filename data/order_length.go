package data

import (
	"cmp"
	"fmt"
	"slices"
)

// GroupedByLength visits samples of similar length together, so that batches need little padding.
// The longest sample comes first, so that a lack of memory shows immediately. It is
// LengthGroupedSampler of Hugging Face's Trainer (group_by_length).
type GroupedByLength struct {
	Lengths   []int // length of each sample; there must be as many as samples
	BatchSize int   // batch size of the loader; required
	// Random gives the permutation to start from; nil means Shuffled{}. Hugging Face draws it from
	// the global generator.
	Random Order
}

// Check refuses a data set whose number of samples differs from the number of lengths.
func (g GroupedByLength) Check(n int) error {
	switch {
	case len(g.Lengths) != n:
		return fmt.Errorf("data: GroupedByLength has %d lengths for a data set of %d samples", len(g.Lengths), n)
	case g.BatchSize < 1:
		return fmt.Errorf("data: GroupedByLength.BatchSize is %d; it must be that of the loader", g.BatchSize)
	}
	return nil
}

// Indices returns the order of the epoch; nil if Check refuses n.
func (g GroupedByLength) Indices(epoch, n int) []int {
	if g.Check(n) != nil {
		return nil
	}
	random := g.Random
	if random == nil {
		random = Shuffled{}
	}
	indices := random.Indices(epoch, n)
	size := g.BatchSize * max(1, min(n/(g.BatchSize*4), 50)) // a mega-batch: 50 batches, or a quarter of the samples
	longest := 0                                             // position of the longest sample of all
	for begin := 0; begin < len(indices); begin += size {
		group := indices[begin:min(begin+size, len(indices))]
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(g.Lengths[b], g.Lengths[a]) })
		if g.Lengths[group[0]] > g.Lengths[indices[longest]] {
			longest = begin
		}
	}
	if n > 0 {
		indices[0], indices[longest] = indices[longest], indices[0]
	}
	return indices
}
