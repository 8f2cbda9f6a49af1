package data

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Collect returns f of every sample of d, in order. It loads the samples once, in as many
// goroutines as there are processors (runtime.GOMAXPROCS), and stops at the first error, a
// [*SampleError]. It can compute the lengths that [GroupedByLength] needs:
//
//	lengths, err := data.Collect(ctx, d, func(s Sample) (int, error) { return len(s.InputIDs), nil })
func Collect[S, T any](ctx context.Context, d Dataset[S], f func(S) (T, error)) ([]T, error) {
	const chunk = 64 // samples that a goroutine takes at a time
	n := d.Len()
	results := make([]T, n)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk) {
		workers.Go(func() {
			for {
				begin := int(next.Add(chunk)) - chunk
				for i := begin; i < min(begin+chunk, n); i++ {
					if ctx.Err() != nil {
						return
					}
					v, err := guard(func() (t T, _ error) {
						s, err := at(ctx, d, 0, i)
						if err != nil {
							return t, err
						}
						return f(s)
					})
					if err != nil {
						cancel(&SampleError{Index: i, What: describe(d, i), Err: err})
						return
					}
					results[i] = v
				}
				if begin >= n {
					return
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}

// Load loads all samples of d into memory.
func Load[S any](ctx context.Context, d Dataset[S]) (Slice[S], error) {
	return Collect(ctx, d, func(s S) (S, error) { return s, nil })
}

// Filter returns the samples of d that keep accepts. It examines each sample once, in several
// goroutines as [Collect] does, and remembers only which were accepted. Samples are loaded again
// when they are requested.
func Filter[S any](ctx context.Context, d Dataset[S], keep func(S) (bool, error)) (Dataset[S], error) {
	kept, err := Collect(ctx, d, keep)
	if err != nil {
		return nil, err
	}
	indices := []int{}
	for i, ok := range kept {
		if ok {
			indices = append(indices, i)
		}
	}
	return subset[S]{d, indices}, nil
}

// SortBy returns the samples of d in ascending order of their keys; samples with equal keys keep
// their order. It computes each key once, in several goroutines as [Collect] does. [Reverse] makes
// the order descending.
func SortBy[S any, K cmp.Ordered](ctx context.Context, d Dataset[S], key func(S) (K, error)) (Dataset[S], error) {
	keys, err := Collect(ctx, d, key)
	if err != nil {
		return nil, err
	}
	indices := Sequential{}.Indices(0, len(keys))
	slices.SortStableFunc(indices, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	return subset[S]{d, indices}, nil
}
