package data

import (
	"context"
	"fmt"
	"sort"
)

// Numbered is a sample of [Enumerate].
type Numbered[S any] struct {
	Index  int
	Sample S
}

// Enumerate returns the samples of d with their indices: Dataset.map(with_indices=True) of
// datasets.
func Enumerate[S any](d Dataset[S]) Dataset[Numbered[S]] { return enumerated[S]{d} }

type enumerated[S any] struct{ d Dataset[S] }

func (e enumerated[S]) Len() int                      { return e.d.Len() }
func (e enumerated[S]) At(i int) (Numbered[S], error) { return e.AtEpoch(0, i) }
func (e enumerated[S]) Describe(i int) string         { return describe(e.d, i) }
func (e enumerated[S]) varies() bool                  { return varies(e.d) }
func (e enumerated[S]) inMemory() bool                { return inMemory(e.d) }
func (e enumerated[S]) AtEpoch(epoch, i int) (Numbered[S], error) {
	return e.at(context.Background(), epoch, i)
}

func (e enumerated[S]) at(ctx context.Context, epoch, i int) (Numbered[S], error) {
	sample, err := at(ctx, e.d, epoch, i)
	return Numbered[S]{i, sample}, err
}

// Pair is a sample of [Zip].
type Pair[A, B any] struct {
	First  A
	Second B
}

// Zip returns the pairs of the samples of a and b at the same index; both must have the same
// length.
func Zip[A, B any](a Dataset[A], b Dataset[B]) (Dataset[Pair[A, B]], error) {
	if a.Len() != b.Len() {
		return nil, fmt.Errorf("data: Zip: the first data set has %d samples, the second %d; cut one with Take",
			a.Len(), b.Len())
	}
	return zipped[A, B]{a, b}, nil
}

type zipped[A, B any] struct {
	a Dataset[A]
	b Dataset[B]
}

func (z zipped[A, B]) Len() int                     { return z.a.Len() }
func (z zipped[A, B]) At(i int) (Pair[A, B], error) { return z.AtEpoch(0, i) }
func (z zipped[A, B]) varies() bool                 { return varies(z.a) || varies(z.b) }
func (z zipped[A, B]) AtEpoch(epoch, i int) (Pair[A, B], error) {
	return z.at(context.Background(), epoch, i)
}

func (z zipped[A, B]) at(ctx context.Context, epoch, i int) (p Pair[A, B], err error) {
	if p.First, err = at(ctx, z.a, epoch, i); err != nil {
		return Pair[A, B]{}, err
	}
	p.Second, err = at(ctx, z.b, epoch, i)
	return p, err
}

func (z zipped[A, B]) Describe(i int) string {
	first, second := describe(z.a, i), describe(z.b, i)
	switch {
	case first == "":
		return second
	case second == "":
		return first
	}
	return first + " with " + second
}

// Interleave returns the first sample of each set in turn, then the second of each, until one of
// them has no more: interleave_datasets of datasets with stopping_strategy="first_exhausted".
func Interleave[S any](sets ...Dataset[S]) (Dataset[S], error) {
	shortest := 0
	for k, d := range sets {
		if d == nil {
			return nil, fmt.Errorf("data: Interleave: data set %d is nil", k)
		}
		if k == 0 || d.Len() < shortest {
			shortest = d.Len()
		}
	}
	all, err := Concat(sets...)
	if err != nil {
		return nil, err
	}
	k := len(sets)
	begins := make([]int, k)
	for i := range k - 1 {
		begins[i+1] = begins[i] + sets[i].Len()
	}
	return view[S]{all, k * shortest, func(i int) int { return begins[i%k] + i/k }}, nil
}

// Batch returns the samples of d in groups of size; the last group may be smaller. It is
// Dataset.batch of datasets. A run does not need it: its [Loader] makes batches in the order of
// each epoch.
func Batch[S any](d Dataset[S], size int) (Dataset[[]S], error) {
	if size < 1 {
		return nil, fmt.Errorf("data: Batch: size is %d; it must be at least 1", size)
	}
	return batched[S]{d, size}, nil
}

type batched[S any] struct {
	d    Dataset[S]
	size int
}

func (b batched[S]) Len() int                          { return b.d.Len()/b.size + min(1, b.d.Len()%b.size) }
func (b batched[S]) At(i int) ([]S, error)             { return b.AtEpoch(0, i) }
func (b batched[S]) varies() bool                      { return varies(b.d) }
func (b batched[S]) AtEpoch(epoch, i int) ([]S, error) { return b.at(context.Background(), epoch, i) }

func (b batched[S]) at(ctx context.Context, epoch, i int) ([]S, error) {
	begin := i * b.size
	group := make([]S, min(b.size, b.d.Len()-begin))
	for k := range group {
		var err error
		if group[k], err = at(ctx, b.d, epoch, begin+k); err != nil {
			return nil, &SampleError{Index: begin + k, What: describe(b.d, begin+k), Err: err}
		}
	}
	return group, nil
}

// Flatten returns the items of all samples, one after the other. It is the inverse of [Batch], and
// is useful for long documents that were cut into pieces. lengths are the numbers of items of the
// samples, which [Collect] can find.
func Flatten[S any](d Dataset[[]S], lengths []int) (Dataset[S], error) {
	if len(lengths) != d.Len() {
		return nil, fmt.Errorf("data: Flatten has %d lengths for a data set of %d samples", len(lengths), d.Len())
	}
	ends, total := make([]int, len(lengths)), 0
	for k, n := range lengths {
		if n < 0 {
			return nil, fmt.Errorf("data: Flatten: length %d is %d", k, n)
		}
		total += n
		ends[k] = total
	}
	return flattened[S]{d, ends}, nil
}

type flattened[S any] struct {
	d    Dataset[[]S]
	ends []int
}

func (f flattened[S]) Len() int {
	if len(f.ends) == 0 {
		return 0
	}
	return f.ends[len(f.ends)-1]
}

func (f flattened[S]) varies() bool                    { return varies(f.d) }
func (f flattened[S]) At(i int) (S, error)             { return f.AtEpoch(0, i) }
func (f flattened[S]) Describe(i int) string           { return describe(f.d, sort.SearchInts(f.ends, i+1)) }
func (f flattened[S]) AtEpoch(epoch, i int) (S, error) { return f.at(context.Background(), epoch, i) }

func (f flattened[S]) at(ctx context.Context, epoch, i int) (s S, err error) {
	k := sort.SearchInts(f.ends, i+1)
	begin := 0
	if k > 0 {
		begin = f.ends[k-1]
	}
	items, err := at(ctx, f.d, epoch, k)
	if err != nil {
		return s, err
	}
	if len(items) != f.ends[k]-begin {
		return s, fmt.Errorf("data: Flatten: sample %d has %d items, its length was given as %d", k, len(items),
			f.ends[k]-begin)
	}
	return items[i-begin], nil
}
