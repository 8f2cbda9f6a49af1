package data

import (
	"context"
	"math/rand/v2"
)

// EpochDataset is implemented by a data set whose samples differ from epoch to epoch, such as one
// that augments them. The loader then calls AtEpoch instead of At. The same epoch and index must
// give the same sample, or a resumed run is not a continuation of the interrupted one.
type EpochDataset[S any] interface {
	Dataset[S]
	AtEpoch(epoch, i int) (S, error)
}

// ContextDataset is implemented by a data set whose samples may take long, such as one that reads
// from a network. The loader then calls AtContext instead of At. The context ends with the run, or
// after [LoaderOptions.SampleTimeout]. If the data set is also an [EpochDataset], AtEpoch is called
// instead; [Augment] around a ContextDataset gives both.
type ContextDataset[S any] interface {
	Dataset[S]
	AtContext(ctx context.Context, i int) (S, error)
}

// Varies reports whether the samples of d differ from epoch to epoch, that is, whether d or a data
// set that it wraps is an [EpochDataset].
func Varies[S any](d Dataset[S]) bool { return varies(d) }

// at returns sample i of d for the epoch.
func at[S any](ctx context.Context, d Dataset[S], epoch, i int) (S, error) {
	switch d := d.(type) {
	case wrapper[S]:
		return d.at(ctx, epoch, i)
	case EpochDataset[S]:
		return d.AtEpoch(epoch, i)
	case ContextDataset[S]:
		return d.AtContext(ctx, i)
	}
	return d.At(i)
}

// wrapper is implemented by the data sets of this package that take their samples from another one,
// and pass the context and the epoch on to it.
type wrapper[S any] interface {
	at(ctx context.Context, epoch, i int) (S, error)
}

// Augment returns the data set of f applied to the samples of d with random numbers that depend
// only on seed, epoch and index. A sample is augmented differently in each epoch, but identically
// when the run is resumed or has more workers. f must draw from r only and must not keep it. f is
// called by several goroutines at a time, each with its own r.
func Augment[S, T any](d Dataset[S], seed uint64, f func(r *rand.Rand, s S) (T, error)) Dataset[T] {
	return augmented[S, T]{d, seed, f}
}

type augmented[S, T any] struct {
	Dataset[S]
	seed uint64
	f    func(*rand.Rand, S) (T, error)
}

func (a augmented[S, T]) At(i int) (T, error)   { return a.AtEpoch(0, i) }
func (a augmented[S, T]) Describe(i int) string { return describe(a.Dataset, i) }

func (a augmented[S, T]) AtEpoch(epoch, i int) (T, error) {
	return a.at(context.Background(), epoch, i)
}

func (a augmented[S, T]) at(ctx context.Context, epoch, i int) (t T, _ error) {
	sample, err := at(ctx, a.Dataset, epoch, i)
	if err != nil {
		return t, err
	}
	// Epoch and index share the second word. They are mixed first, so that neighboring pairs do not
	// collide.
	r := rand.New(rand.NewPCG(a.seed, mix(uint64(epoch))^mix(^uint64(i))))
	return a.f(r, sample)
}

// mix is the finalizer of SplitMix64: it spreads small numbers over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
