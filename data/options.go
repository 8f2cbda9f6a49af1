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

	// Order is the order in which samples are visited; nil means [Sequential].
	Order Order

	// DropLast leaves out the last batch of an epoch if it is smaller than BatchSize.
	DropLast bool

	// Shard is the part of every epoch that this process sees; zero means all of it.
	Shard Shard

	// Workers is the number of goroutines that load and collate, each a whole batch at a time. Zero
	// means one for each processor that Go may use (runtime.GOMAXPROCS). It means none as long as
	// samples are in memory ([Slice], or a selection of one), [LoaderOptions.SampleTimeout] is zero
	// and a batch is made in less than 50 microseconds: passing such a batch between goroutines
	// costs more than making it, so it is made where it is used. The batches and their order do not
	// depend on Workers.
	Workers int

	// Prefetch is how many batches may be finished or in progress ahead of the one in use; it
	// limits the loader's memory. Zero means twice Workers.
	Prefetch int

	// ReuseSamples says that the collate function does not keep its slice of samples after it
	// returns, so that the next batch may use the same memory.
	ReuseSamples bool

	// SampleTimeout is how long loading a sample may take; zero means any time. If it takes longer,
	// the sample counts as one that could not be loaded ([ErrSampleTimeout]). A data set that
	// neither returns nor obeys the context of [ContextDataset] leaves a goroutine behind.
	SampleTimeout time.Duration

	// Patience is how long the loader waits, after its epoch has ended or its context was
	// cancelled, for the samples that are being loaded at that moment; zero means 5 seconds. After
	// that it abandons their goroutines and names the samples in the default log of log/slog and in
	// the error of a cancelled epoch ([ErrNeverReturned]).
	Patience time.Duration

	// BadSample is called for every sample that could not be loaded; err is a [*SampleError]. If it
	// returns nil, the sample is left out and its batch is one sample smaller. A batch that has
	// lost all its samples is an error, [ErrEmptyBatch], since leaving it out would change the
	// count of batches by which a run is resumed. If BadSample returns an error, the epoch ends
	// with it. Nil means that the epoch ends with err. BadSample is called by several goroutines at
	// a time.
	//
	// If a [Stream] ends with an error, it was cut short, and BadSample cannot help; see
	// [OneSample].
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
