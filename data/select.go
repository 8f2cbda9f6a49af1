package data

import (
	"context"
	"fmt"
	"math"
)

// view is a data set whose sample i is that of d at index(i). It costs no memory for each sample.
type view[S any] struct {
	d     Dataset[S]
	n     int
	index func(i int) int
}

func (v view[S]) Len() int                        { return v.n }
func (v view[S]) At(i int) (S, error)             { return v.d.At(v.index(i)) }
func (v view[S]) AtEpoch(epoch, i int) (S, error) { return v.at(context.Background(), epoch, i) }

func (v view[S]) at(ctx context.Context, epoch, i int) (S, error) {
	return at(ctx, v.d, epoch, v.index(i))
}
func (v view[S]) Describe(i int) string { return describe(v.d, v.index(i)) }
func (v view[S]) varies() bool          { return varies(v.d) }
func (v view[S]) inMemory() bool        { return inMemory(v.d) }

// Range returns the samples begin to end-1 of d, like a slice expression. It is
// Dataset.select(range(begin, end)) of datasets.
func Range[S any](d Dataset[S], begin, end int) (Dataset[S], error) {
	if begin < 0 || end < begin || end > d.Len() {
		return nil, fmt.Errorf("data: Range: [%d:%d] does not fit in a data set of %d samples", begin, end, d.Len())
	}
	return view[S]{d, end - begin, func(i int) int { return begin + i }}, nil
}

// Take returns the first n samples of d, or all if there are fewer. A negative n counts as none.
func Take[S any](d Dataset[S], n int) Dataset[S] {
	return view[S]{d, max(0, min(n, d.Len())), func(i int) int { return i }}
}

// Skip returns d without its first n samples. A negative n counts as none.
func Skip[S any](d Dataset[S], n int) Dataset[S] {
	n = max(0, min(n, d.Len()))
	return view[S]{d, d.Len() - n, func(i int) int { return n + i }}
}

// Reverse returns the samples of d from the last to the first.
func Reverse[S any](d Dataset[S]) Dataset[S] {
	n := d.Len()
	return view[S]{d, n, func(i int) int { return n - 1 - i }}
}

// Repeat returns the samples of d, repeated times times. Within an epoch, the repeated samples of
// an [EpochDataset] are identical.
func Repeat[S any](d Dataset[S], times int) (Dataset[S], error) {
	n := d.Len()
	if times < 0 || n > 0 && times > math.MaxInt/n {
		return nil, fmt.Errorf("data: Repeat: %d times %d samples is not possible", times, n)
	}
	return view[S]{d, n * times, func(i int) int { return i % n }}, nil
}

// Part returns part k of n contiguous parts of about the same size: Dataset.shard(n, k) of
// datasets. The first parts are one sample longer if the number of samples is not a multiple of n.
// It can give each of n machines its own part of the data.
func Part[S any](d Dataset[S], k, n int) (Dataset[S], error) {
	if err := checkShard("Part", k, n); err != nil {
		return nil, err
	}
	size, longer := d.Len()/n, d.Len()%n
	begin := k*size + min(k, longer)
	if k < longer {
		size++
	}
	return Range(d, begin, begin+size)
}

// Stride returns the samples k, k+n, k+2n, ... of d: Dataset.shard(n, k, contiguous=False) of
// datasets. It is the better choice if the samples are sorted, by class or by length.
func Stride[S any](d Dataset[S], k, n int) (Dataset[S], error) {
	if err := checkShard("Stride", k, n); err != nil {
		return nil, err
	}
	return view[S]{d, (d.Len() - k + n - 1) / n, func(i int) int { return k + i*n }}, nil
}

func checkShard(what string, k, n int) error {
	if n < 1 || k < 0 || k >= n {
		return fmt.Errorf("data: %s: part %d of %d does not exist; parts are counted from 0", what, k, n)
	}
	return nil
}

// Shuffle returns the samples of d in random order, the same in every epoch:
// Dataset.shuffle(seed=seed) of datasets, row for row. A training run shuffles in each epoch
// according to [LoaderOptions.Order]; Shuffle is for taking a random part of a data set first.
func Shuffle[S any](d Dataset[S], seed uint64) Dataset[S] {
	return subset[S]{d, NumpyPermutation(seed, d.Len())}
}

// TrainTestSplit divides d at random; a share testSize of its samples, rounded up, goes to test. It
// is Dataset.train_test_split(test_size=testSize, seed=seed) of datasets, row for row. [Split] is
// the equivalent in PyTorch.
func TrainTestSplit[S any](d Dataset[S], testSize float64, seed uint64) (train, test Dataset[S], err error) {
	if !(testSize > 0 && testSize < 1) {
		return nil, nil, fmt.Errorf("data: TrainTestSplit: test size is %v; it must be a fraction of the data set, "+
			"between 0 and 1", testSize)
	}
	n := d.Len()
	k := int(math.Ceil(testSize * float64(n)))
	if k >= n {
		return nil, nil, fmt.Errorf("data: TrainTestSplit: %v of %d samples leaves none to train on", testSize, n)
	}
	indices := NumpyPermutation(seed, n)
	return subset[S]{d, indices[k:]}, subset[S]{d, indices[:k:k]}, nil
}
