package data

import (
	"fmt"
	"runtime"
	"time"
)

// LoaderOptions configures [NewLoader].
type LoaderOptions struct {
	// BatchSize is the number of samples in a batch; required. The last batch of an epoch may be
	// smaller.
	BatchSize int

	// Order is the order of visit; nil means [Sequential].
	Order Order

	// DropLast leaves out the last batch of an epoch if it is smaller than BatchSize.
	DropLast bool

	// Shard is the part of every epoch that this process sees; zero: all of it.
	Shard Shard

	// Workers is the number of goroutines that load and collate, each a whole batch at a time. Zero
	// means one for each processor that Go may use (runtime.GOMAXPROCS), and none for as long as
	// samples lie in memory ([Slice], or a selection of one), [LoaderOptions.SampleTimeout] is zero
	// and a batch is made in less than 50 microseconds: to hand such a batch over costs more than
	// to make it, so it is made where it is used. The batches and their order do not depend on it.
	Workers int

	// Prefetch is how many batches may be finished or in the making ahead of the one that is being
	// used; it bounds the memory of the loader. Zero means twice Workers.
	Prefetch int

	// ReuseSamples says that the collate function keeps nothing of the slice of samples that it gets
	// beyond its return, so that the next batch may have its memory.
	ReuseSamples bool

	// SampleTimeout is how long a sample may take; zero means as long as it likes. One that takes
	// longer is a sample that could not be had ([ErrSampleTimeout]); a data set that neither
	// returns nor heeds the context of [ContextDataset] costs a goroutine.
	SampleTimeout time.Duration

	// Patience is how long the loader waits, once its epoch has ended or its context was cancelled,
	// for the samples that are being loaded at that moment; zero means 5 seconds. Then it leaves
	// their goroutines behind, names the samples in the default log of log/slog, and in the error
	// of a cancelled epoch ([ErrNeverReturned]).
	Patience time.Duration

	// BadSample is asked about every sample that could not be had; err is a [*SampleError]. If it
	// returns nil the sample is left out and its batch is that much smaller; a batch that has lost
	// all its samples is an error, [ErrEmptyBatch], since leaving it out would shift the count of
	// batches by which a run is resumed. If it returns an error the epoch ends with it. Nil means:
	// return err. It is called by several goroutines at a time. A [Stream] that ends with an error was
	// cut short, which nothing here can mend: see [OneSample].
	BadSample func(index int, err error) error
}

const defaultPatience = 5 * time.Second

// withDefaults checks the options and fills in what the zero values mean.
func (o LoaderOptions) withDefaults() (LoaderOptions, error) {
	switch {
	case o.BatchSize <= 0:
		return o, fmt.Errorf("data: LoaderOptions.BatchSize is %d; it must be at least 1", o.BatchSize)
	case o.Workers < 0:
		return o, fmt.Errorf("data: LoaderOptions.Workers is %d; it must be at least 1, or 0 for one per processor",
			o.Workers)
	case o.Prefetch < 0:
		return o, fmt.Errorf("data: LoaderOptions.Prefetch is %d; it must be at least 1, or 0 for twice the workers",
			o.Prefetch)
	case o.SampleTimeout < 0:
		return o, fmt.Errorf("data: LoaderOptions.SampleTimeout is %v; it must be positive, or 0 for no limit",
			o.SampleTimeout)
	case o.Patience < 0:
		return o, fmt.Errorf("data: LoaderOptions.Patience is %v; it must be positive, or 0 for %v", o.Patience,
			defaultPatience)
	}
	if err := o.Shard.check(o.BatchSize); err != nil {
		return o, err
	}
	if o.Order == nil {
		o.Order = Sequential{}
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Prefetch == 0 {
		o.Prefetch = 2 * o.Workers
	}
	if o.BadSample == nil {
		o.BadSample = func(_ int, err error) error { return err }
	}
	return o, nil
}
