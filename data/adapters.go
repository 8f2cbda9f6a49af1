package data

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
)

// Slice is a data set in memory.
type Slice[S any] []S

// Len returns the number of samples.
func (s Slice[S]) Len() int { return len(s) }

// At returns sample i.
func (s Slice[S]) At(i int) (S, error) { return s[i], nil }

// Func returns a data set of n samples, which at loads. at is called by several goroutines at a
// time.
func Func[S any](n int, at func(i int) (S, error)) Dataset[S] { return function[S]{n, at} }

type function[S any] struct {
	n  int
	at func(int) (S, error)
}

func (f function[S]) Len() int            { return f.n }
func (f function[S]) At(i int) (S, error) { return f.at(i) }

// Map returns the data set of f applied to the samples of d. f is called each time a sample is
// requested, and by several goroutines at a time.
func Map[S, T any](d Dataset[S], f func(S) (T, error)) Dataset[T] { return mapped[S, T]{d, f} }

type mapped[S, T any] struct {
	Dataset[S]
	f func(S) (T, error)
}

func (m mapped[S, T]) At(i int) (T, error)             { return m.AtEpoch(0, i) }
func (m mapped[S, T]) Describe(i int) string           { return describe(m.Dataset, i) }
func (m mapped[S, T]) varies() bool                    { return varies(m.Dataset) }
func (m mapped[S, T]) AtEpoch(epoch, i int) (T, error) { return m.at(context.Background(), epoch, i) }

func (m mapped[S, T]) at(ctx context.Context, epoch, i int) (t T, _ error) {
	sample, err := at(ctx, m.Dataset, epoch, i)
	if err != nil {
		return t, err
	}
	return m.f(sample)
}

// Subset returns the samples of d at these indices, in the order of the indices. An index may occur
// more than once. It is torch.utils.data.Subset, and Dataset.select of datasets.
func Subset[S any](d Dataset[S], indices []int) (Dataset[S], error) {
	for k, i := range indices {
		if i < 0 || i >= d.Len() {
			return nil, fmt.Errorf("data: Subset: index %d at position %d is not in a data set of %d samples", i, k,
				d.Len())
		}
	}
	return subset[S]{d, indices}, nil
}

type subset[S any] struct {
	d       Dataset[S]
	indices []int
}

func (s subset[S]) Len() int                        { return len(s.indices) }
func (s subset[S]) At(i int) (S, error)             { return s.d.At(s.indices[i]) }
func (s subset[S]) AtEpoch(epoch, i int) (S, error) { return s.at(context.Background(), epoch, i) }

func (s subset[S]) at(ctx context.Context, epoch, i int) (S, error) {
	return at(ctx, s.d, epoch, s.indices[i])
}
func (s subset[S]) Describe(i int) string { return describe(s.d, s.indices[i]) }
func (s subset[S]) varies() bool          { return varies(s.d) }
func (s subset[S]) inMemory() bool        { return inMemory(s.d) }

// Split divides d at random: fraction of its samples go to first, the others to second. It is
// torch.utils.data.random_split into fraction and the rest, with a generator seeded with seed, so
// it can reproduce a split made in Python. A fraction of 0.9 corresponds to [0.9, 0.1] there. The
// sizes of [0.9, 1-0.9] may differ by one, since 1-0.9 is a little less than 0.1.
func Split[S any](d Dataset[S], fraction float64, seed uint64) (first, second Dataset[S], err error) {
	if !(fraction >= 0 && fraction <= 1) {
		return nil, nil, fmt.Errorf("data: Split: fraction is %v; it must be from 0 to 1", fraction)
	}
	n := d.Len()
	rest := 1 - fraction
	if decimal(fraction) == fraction { // false for 2.0/3, whose complement is not a short decimal either
		rest = decimal(rest)
	}
	k := int(float64(n) * fraction)
	if n-k-int(float64(n)*rest) > 0 {
		k++ // PyTorch rounds both parts down and gives the first what is left over
	}
	indices := Permutation(seed, n)
	return subset[S]{d, indices[:k:k]}, subset[S]{d, indices[k:]}, nil
}

// decimal rounds x to 15 decimal places.
func decimal(x float64) float64 {
	d, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 15, 64), 64)
	return d
}

// Concat returns the samples of all sets, one set after the other: torch.utils.data.ConcatDataset,
// and concatenate_datasets of datasets.
func Concat[S any](sets ...Dataset[S]) (Dataset[S], error) {
	c := concatenated[S]{sets: sets}
	total := 0
	for k, d := range sets {
		if d == nil {
			return nil, fmt.Errorf("data: Concat: data set %d is nil", k)
		}
		total += d.Len()
		c.ends = append(c.ends, total)
	}
	return c, nil
}

type concatenated[S any] struct {
	sets []Dataset[S]
	ends []int // ends[k] is the number of samples in sets[:k+1]
}

func (c concatenated[S]) Len() int {
	if len(c.ends) == 0 {
		return 0
	}
	return c.ends[len(c.ends)-1]
}

// find returns the set that sample i is in, and its index in that set.
func (c concatenated[S]) find(i int) (Dataset[S], int) {
	k := sort.SearchInts(c.ends, i+1)
	return c.sets[k], i - c.ends[k] + c.sets[k].Len()
}

func (c concatenated[S]) varies() bool { return slices.ContainsFunc(c.sets, varies[S]) }
func (c concatenated[S]) inMemory() bool {
	return !slices.ContainsFunc(c.sets, func(d Dataset[S]) bool { return !inMemory(d) })
}

func (c concatenated[S]) At(i int) (S, error) { return c.AtEpoch(0, i) }

func (c concatenated[S]) AtEpoch(epoch, i int) (S, error) {
	return c.at(context.Background(), epoch, i)
}

func (c concatenated[S]) at(ctx context.Context, epoch, i int) (S, error) {
	d, i := c.find(i)
	return at(ctx, d, epoch, i)
}

func (c concatenated[S]) Describe(i int) string {
	d, i := c.find(i)
	return describe(d, i)
}
