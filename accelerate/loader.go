package accelerate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
	"github.com/gotrainer/gotrainer/torch"
)

// LoaderOptions configures [PrepareLoader].
type LoaderOptions struct {
	BatchSize int  // required
	Shuffle   bool // a new permutation in each pass
	// Seedable makes the permutation depend on Seed and the pass alone (use_seedable_sampler);
	// otherwise it is drawn from the default generator.
	Seedable bool
	Seed     *uint64 // data_seed; nil: the seed that the default generator had when the loader was made
	DropLast bool    // leave out the last batch of a pass if it is smaller
	Workers  int     // goroutines that load and collate; zero: one per processor
}

// Loader delivers batches and tells its [Accelerator] which one is the last: DataLoaderShard or,
// for a stream, DataLoaderDispatcher.
type Loader[S, B any] struct {
	accelerator *Accelerator
	pass        func(ctx context.Context, epoch, skip int) iter.Seq2[data.StreamBatch[B], error]
	length      int // batches in a pass; -1: a stream
	epoch       int
	skip        int
	end         bool
	short       int                // samples in the last round of batches, if incomplete; for a stream known at its end
	order       *sharedorder.Order // order on which the processes agree before each pass; nil: nothing to agree on
	samples     int                // samples in the data set
}

// PrepareLoader makes the loader of a data set: accelerator.prepare(DataLoader(dataset, ...)).
// collate makes a batch of samples and is called by several goroutines. With several processes,
// each gets every n-th batch of a common order. If the batches cannot be divided evenly, the first
// samples of a pass fill up its end, so that all processes have the same number
// ([Accelerator.GatherForMetrics] removes these samples again).
func PrepareLoader[S, B any](a *Accelerator, d data.Dataset[S], collate func([]S) (B, error),
	o LoaderOptions) (*Loader[S, B], error) {
	var order data.Order = data.Sequential{}
	var shared *sharedorder.Order
	switch {
	case !o.Shuffle && o.Seedable:
		return nil, fmt.Errorf("accelerate: LoaderOptions.Seedable is set without Shuffle, so there is no " +
			"permutation to seed")
	case o.Shuffle && o.Seedable:
		seed := o.Seed
		if seed == nil {
			initial, err := initialSeed()
			if err != nil {
				return nil, fmt.Errorf("accelerate: PrepareLoader: %w", err)
			}
			seed = &initial
		}
		common, err := a.mainSeed(*seed)
		if err != nil {
			return nil, fmt.Errorf("accelerate: PrepareLoader: %w", err)
		}
		order = data.Shuffled{Seed: common}
	case o.Shuffle && a.NumProcesses() > 1:
		var err error
		if shared, err = sharedorder.New(); err != nil {
			return nil, fmt.Errorf("accelerate: PrepareLoader: %w", err)
		}
		order = data.OrderFunc(shared.Indices)
	case o.Shuffle:
		order = data.OrderFunc(func(_, n int) []int { return data.Permutation(uint64(sharedorder.Draw()), n) })
	}
	l, err := data.NewLoader(d, collate, data.LoaderOptions{BatchSize: o.BatchSize, Order: order, DropLast: o.DropLast,
		Workers: o.Workers,
		Shard:   data.Shard{Rank: a.ProcessIndex(), WorldSize: a.NumProcesses(), SplitBatches: a.options.SplitBatches}})
	if err != nil {
		return nil, fmt.Errorf("accelerate: PrepareLoader: %w", err)
	}
	round := o.BatchSize
	if !a.options.SplitBatches {
		round *= a.NumProcesses()
	}
	pass := func(ctx context.Context, epoch, skip int) iter.Seq2[data.StreamBatch[B], error] {
		return func(yield func(data.StreamBatch[B], error) bool) {
			for b, err := range l.Epoch(ctx, epoch, skip) {
				if !yield(data.StreamBatch[B]{Batch: b}, err) {
					return
				}
			}
		}
	}
	loader := &Loader[S, B]{accelerator: a, pass: pass, length: l.Len(), order: shared, samples: d.Len()}
	if !o.DropLast {
		loader.short = l.Samples() % round
	}
	return loader, nil
}

// PrepareStream makes the loader of data without a length: accelerator.prepare of a DataLoader over
// an IterableDataset. The options Shuffle, Seedable and Seed must not be set, since the stream
// decides the order. The last batch of a pass ends a window, as with a data set. A pass without a
// batch is an error.
//
// With several processes, each reads the whole stream, which must be the same for all, and gets the
// samples that Accelerate's main process would send it (dispatch_batches): whole batches, and an
// even part of what is left at the end of a pass, filled up with the first samples of the pass.
// With Options.NoDispatchBatches, the rest is filled up to a full batch for each process.
func PrepareStream[S, B any](a *Accelerator, s data.Stream[S], collate func([]S) (B, error),
	o LoaderOptions) (*Loader[S, B], error) {
	if o.Shuffle || o.Seedable || o.Seed != nil {
		return nil, errors.New("accelerate: PrepareStream: LoaderOptions.Shuffle, Seedable and Seed must not be set, " +
			"since the order of a stream is its own")
	}
	l, err := data.NewStreamLoader(s, collate, data.LoaderOptions{BatchSize: o.BatchSize, DropLast: o.DropLast,
		Workers: o.Workers,
		Shard: data.Shard{Rank: a.ProcessIndex(), WorldSize: a.NumProcesses(), SplitBatches: a.options.SplitBatches,
			FullEnd: a.options.NoDispatchBatches}})
	if err != nil {
		return nil, fmt.Errorf("accelerate: PrepareStream: %w", err)
	}
	return &Loader[S, B]{accelerator: a, pass: l.Pass, length: -1}, nil
}

// SkipFirstBatches returns a loader that leaves out the first n batches of a pass without loading
// them, for the rest of a pass that was interrupted after n batches. As in Accelerate it leaves
// them out of every pass. The original loader is not changed; continue with it for the following
// passes, after SetEpoch if it is seedable.
func SkipFirstBatches[S, B any](l *Loader[S, B], n int) *Loader[S, B] {
	return &Loader[S, B]{accelerator: l.accelerator, pass: l.pass, length: l.length, epoch: l.epoch, skip: l.skip + n,
		short: l.short, order: l.order, samples: l.samples}
}

// SetEpoch says which pass is the next: 0, 1, ... It determines a seedable permutation. Without a
// call, passes are counted automatically.
func (l *Loader[S, B]) SetEpoch(epoch int) { l.epoch = epoch }

// Len returns the number of batches in a pass, without the skipped ones; -1 for a stream, whose
// length is not known.
func (l *Loader[S, B]) Len() int {
	if l.length < 0 {
		return -1
	}
	return max(0, l.length-l.skip)
}

// Batches returns the batches of the next pass. The loader reads one batch ahead, so that
// Accumulate knows which one is the last. An error ends the pass, as does ctx. A pass that is left
// early does not count.
func (l *Loader[S, B]) Batches(ctx context.Context) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		var none B
		if l.order != nil {
			if err := l.order.Agree(ctx, l.accelerator.options.Group); err != nil {
				yield(none, fmt.Errorf("accelerate: %w", err))
				return
			}
		}
		// the seed of the workers, which a DataLoader draws when its iterator is made
		if err := torch.Try(func() { sharedorder.Draw() }); err != nil {
			yield(none, err)
			return
		}
		l.end = false
		l.accelerator.loaders = append(l.accelerator.loaders, l)
		defer l.leave()
		var held data.StreamBatch[B]
		holds := false
		skip := l.skip
		if l.length >= 0 {
			skip = min(skip, l.length)
		}
		for batch, err := range l.pass(ctx, l.epoch, skip) {
			if holds && !yield(held.Batch, nil) {
				return
			}
			if err != nil {
				yield(none, err)
				return
			}
			held, holds = batch, true
		}
		if l.end = true; !holds && l.length < 0 {
			yield(none, fmt.Errorf("accelerate: pass %d over the stream has no batch", l.epoch))
			return
		}
		// with that option, the samples that fill up the end count
		if l.length < 0 && !l.accelerator.options.NoDispatchBatches {
			l.short = held.Round
		}
		if l.order != nil {
			l.order.End(l.samples)
		}
		if holds && !yield(held.Batch, nil) {
			return
		}
		l.epoch++
	}
}

func (l *Loader[S, B]) atEnd() bool { return l.end }

func (l *Loader[S, B]) remainder() int { return l.short }

// leave removes the loader from the list of loaders that are being read.
func (l *Loader[S, B]) leave() {
	a := l.accelerator
	if i := slices.Index(a.loaders, loaderAt(l)); i >= 0 {
		a.loaders = slices.Delete(a.loaders, i, i+1)
	}
}

// initialSeed returns the seed of the default generator: torch.initial_seed(). The state begins
// with it.
func initialSeed() (seed uint64, err error) {
	err = torch.Try(func() { seed = binary.LittleEndian.Uint64(torch.DefaultGenerator(torch.CPU).State()) })
	return seed, err
}
