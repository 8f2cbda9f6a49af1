package data

import (
	"fmt"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// NoDuplicates visits the samples in a random order in which no batch has two samples with a value in
// common, such as the same answer to two questions: losses that take the other samples of a batch for
// wrong answers need that. It is NoDuplicatesBatchSampler of sentence-transformers
// (BatchSamplers.NO_DUPLICATES) with drop_last, with a generator that manual_seed(Seed+epoch) has
// seeded, bit for bit.
//
// An epoch has as many whole batches as the data set. Samples that find no place come again: where
// conflicts leave too few batches, the samples are shuffled once more and further batches are made, until
// there are enough. sentence-transformers gives up after the second time.
type NoDuplicates struct {
	Values    [][]string // of each sample; their number must be that of the samples
	BatchSize int        // of the loader; required
	Seed      uint64
}

// Check refuses a data set that has not just as many samples as there are lists of values, or so few
// different ones that there is no batch.
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

// Count returns how many samples an epoch has: those of whole batches.
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

// batches are whole batches of samples in this order, of so many samples at most. A sample that has a
// value in common with its batch waits for the next one.
func (o NoDuplicates) batches(order []int, most int) (indices []int) {
	next := make([]int, len(order)+1) // behind each place of the order the next that waits; 0 is in front
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
		if len(indices) < begin+o.BatchSize { // those that wait for this one may still make batches
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
