package data

import (
	"fmt"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// NoDuplicates visits the samples in a random order in which no two samples of a batch have a value
// in common, such as the same answer to two questions. Losses that use the other samples of a batch
// as negatives need this. It is NoDuplicatesBatchSampler of sentence-transformers
// (BatchSamplers.NO_DUPLICATES) with drop_last and a generator seeded by manual_seed(Seed+epoch),
// bit for bit.
//
// An epoch has as many full batches as the size of the data set allows. If conflicts leave fewer,
// all samples are shuffled again to make the missing batches, until there are enough;
// sentence-transformers gives up after the second shuffle.
type NoDuplicates struct {
	Values    [][]string // values of each sample; there must be as many lists as samples
	BatchSize int        // batch size of the loader; required
	Seed      uint64
}

// Check refuses a data set whose number of samples differs from the number of lists of values, and
// one from which no batch can be made.
func (o NoDuplicates) Check(n int) error {
	switch {
	case len(o.Values) != n:
		return fmt.Errorf("data: NoDuplicates has values of %d samples for a data set of %d", len(o.Values), n)
	case o.BatchSize < 1:
		return fmt.Errorf("data: NoDuplicates.BatchSize is %d; it must be that of the loader", o.BatchSize)
	case n < o.BatchSize:
		return fmt.Errorf("data: NoDuplicates makes whole batches of %d, but there are %d samples", o.BatchSize, n)
	case len(o.batches(Sequential{}.Indices(0, n), o.BatchSize)) == 0:
		return fmt.Errorf("data: NoDuplicates finds no %d samples without a value in common; want a smaller BatchSize",
			o.BatchSize)
	}
	return nil
}

// Count returns the number of samples in an epoch: those of the full batches.
func (o NoDuplicates) Count(n int) int {
	if o.BatchSize < 1 {
		return 0
	}
	return n / o.BatchSize * o.BatchSize
}

// Indices returns the order of the epoch; nil if there is none.
func (o NoDuplicates) Indices(epoch, n int) (indices []int) {
	if len(o.Values) != n || o.BatchSize < 1 {
		return nil
	}
	g := mt19937.New(uint32(o.Seed + uint64(epoch)))
	for len(indices) < o.Count(n) {
		more := o.batches(permute(g, n), o.Count(n)-len(indices))
		if len(more) == 0 {
			return nil
		}
		indices = append(indices, more...)
	}
	return indices
}

// batches makes full batches from samples in this order, with at most most samples in all. A sample
// that has a value in common with its batch waits for the next one.
func (o NoDuplicates) batches(order []int, most int) (indices []int) {
	next := make([]int, len(order)+1) // linked list of waiting places, from 1; next[0] is its head, 0 its end
	for i := range order {
		next[i] = i + 1
	}
	for next[0] > 0 && len(indices) < most {
		used, begin := map[string]bool{}, len(indices)
		for last := 0; next[last] > 0 && len(indices) < begin+o.BatchSize; {
			place := next[last]
			sample := order[place-1]
			if o.conflicts(sample, used) {
				last = place
				continue
			}
			next[last] = next[place]
			indices = append(indices, sample)
			for _, v := range o.Values[sample] {
				used[v] = true
			}
		}
		if len(indices) < begin+o.BatchSize { // dropped; the samples still waiting may form batches
			indices = indices[:begin]
		}
	}
	return indices
}

func (o NoDuplicates) conflicts(sample int, used map[string]bool) bool {
	for _, v := range o.Values[sample] {
		if used[v] {
			return true
		}
	}
	return false
}
