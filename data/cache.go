package data

import (
	"context"
	"fmt"
	"sync/atomic"
)

// CacheOptions configures [Cache].
type CacheOptions[S any] struct {
	// Bytes is the limit for the total size of the cached samples; zero means no limit.
	Bytes int64

	// Size returns the size of a sample; required if Bytes is set.
	Size func(S) int64
}

// Cache returns d with its samples kept in memory after they have been loaded, until the limit is
// reached. From then on, the other samples are loaded each time. Samples are never evicted: an
// epoch visits each sample once, and a cache that made room for the newest sample would never have
// the next one.
//
// The samples are shared by all callers and must not be changed. A data set whose samples differ
// from epoch to epoch is refused, since its cache would repeat the first epoch forever; put
// [Augment] around the cache, not inside it.
func Cache[S any](d Dataset[S], o CacheOptions[S]) (Dataset[S], error) {
	switch {
	case varies(d):
		return nil, fmt.Errorf("data: Cache: the samples of %T differ from epoch to epoch; cache the data set below "+
			"Augment and augment the cached one", d)
	case o.Bytes < 0:
		return nil, fmt.Errorf("data: CacheOptions.Bytes is %d; it must be positive, or 0 for no limit", o.Bytes)
	case o.Bytes > 0 && o.Size == nil:
		return nil, fmt.Errorf("data: CacheOptions.Bytes is %d but Size is nil; it must say what a sample weighs",
			o.Bytes)
	}
	return &cached[S]{Dataset: d, options: o, samples: make([]atomic.Pointer[S], d.Len())}, nil
}

type cached[S any] struct {
	Dataset[S]
	options CacheOptions[S]
	samples []atomic.Pointer[S]
	weight  atomic.Int64
}

func (c *cached[S]) Describe(i int) string { return describe(c.Dataset, i) }

// At holds no lock while it loads: two goroutines that request a sample at the same time both load
// it, and the first result is kept.
func (c *cached[S]) At(i int) (S, error) { return c.at(context.Background(), 0, i) }

func (c *cached[S]) at(ctx context.Context, epoch, i int) (S, error) {
	if s := c.samples[i].Load(); s != nil {
		return *s, nil
	}
	s, err := at(ctx, c.Dataset, epoch, i)
	if err != nil {
		return s, err
	}
	if c.options.Bytes > 0 {
		size := max(0, c.options.Size(s))
		if c.weight.Add(size) > c.options.Bytes {
			c.weight.Add(-size)
			return s, nil
		}
		if !c.samples[i].CompareAndSwap(nil, &s) {
			c.weight.Add(-size)
		}
		return s, nil
	}
	c.samples[i].CompareAndSwap(nil, &s)
	return s, nil
}

// varier is implemented by the data sets of this package that have AtEpoch only to pass the epoch
// on.
type varier interface{ varies() bool }

// varies reports whether the samples of a data set differ from epoch to epoch.
func varies[S any](d Dataset[S]) bool {
	if v, ok := d.(varier); ok {
		return v.varies()
	}
	_, ok := d.(EpochDataset[S])
	return ok
}
