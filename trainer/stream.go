package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/data"
)

var errEmptyStream = errors.New("trainer: the stream has no samples in its first pass")

// idlePasses is how many passes over a stream may go by without a step until the run is given up.
// Hugging Face's Trainer never ends then; hooks, such as early stopping, may end it until there.
const idlePasses = 20

// FitStream is [Trainer.Fit] for training data without a length: an IterableDataset.
// Options.MaxSteps is required, since nothing else says when the run ends; it begins at the first
// sample again as often as need be. Options.Order must be nil: the order is the stream's.
//
// The end of a pass is the end of an epoch: a window that it cuts short is an update of its own,
// and triggers that count epochs count passes. A pass without samples, as a stream has that can be
// read only once, ends the run.
//
// Of several processes each reads the whole stream, which must be the same for all, and trains on
// its part, as transformers deals it out (dispatch_batches): whole batches in turn, and what is left
// at the end of a pass evenly, filled up with the first samples of the pass, or with
// Options.NoDispatchBatches in full batches.
func (t *Trainer[S, B]) FitStream(ctx context.Context, train data.Stream[S], valid data.Dataset[S]) (*Result, error) {
	return t.fit(ctx, func(r *runner[S, B]) error { return r.prepareStream(train, valid) })
}

// passes hands out the batches of a pass over the training data, without its first skip ones.
type passes[B any] func(ctx context.Context, epoch, skip int) iter.Seq2[data.StreamBatch[B], error]

// batchSizes is implemented by a loader whose batches may be of unequal size, as *data.Loader's are
// with a data.Batcher.
type batchSizes interface{ BatchSamples(epoch int) []int }

// setPasses are those over a data set of n samples, of which a shard is this process's part.
func setPasses[B any](loader BatchLoader[B], n, batchSize int, shard data.Shard) passes[B] {
	samples, world := samplesOf(loader, n), max(1, shard.WorldSize)
	return func(ctx context.Context, epoch, skip int) iter.Seq2[data.StreamBatch[B], error] {
		return func(yield func(data.StreamBatch[B], error) bool) {
			i := skip
			var sizes []int
			if s, ok := loader.(batchSizes); ok {
				sizes = s.BatchSamples(epoch)
			}
			for batch, err := range loader.Epoch(ctx, epoch, skip) {
				b := data.StreamBatch[B]{Batch: batch, Samples: batchSize,
					Round: max(0, min(batchSize*world, samples-i*batchSize*world))}
				switch {
				case world == 1 && i < len(sizes):
					b.Samples = sizes[i]
				case world == 1 || shard.Uneven:
					b.Samples = max(0, min(batchSize, b.Round-shard.Rank*batchSize))
				}
				if !yield(b, err) {
					return
				}
				i++
			}
		}
	}
}

// prepareStream makes the loaders and the plan of a run over a stream.
func (r *runner[S, B]) prepareStream(train data.Stream[S], valid data.Dataset[S]) error {
	switch {
	case train == nil:
		return errors.New("trainer: FitStream needs a stream, got nil")
	case r.o.MaxSteps == 0:
		return wrong("MaxSteps", 0, "a positive number, since a stream has no length")
	case r.o.LimitBatches > 0:
		return wrong("LimitBatches", r.o.LimitBatches, "0, since a pass over a stream is not cut short; let the stream end")
	case r.o.MaxStepsPerEpoch > 0:
		return wrong("MaxStepsPerEpoch", r.o.MaxStepsPerEpoch, "0, since a pass over a stream is not cut short; let the "+
			"stream end")
	case r.o.Order != nil:
		return wrong("Order", fmt.Sprintf("%T", r.o.Order), "nil, since the order of a stream is its own")
	}
	o := data.LoaderOptions{
		BatchSize: r.o.BatchSize, DropLast: r.o.DropLast && !r.o.Semantics.StreamKeepsLast, Workers: r.o.Workers,
		Prefetch: r.o.Prefetch, BadSample: r.o.BadSample, Shard: r.shard(),
	}
	o.Shard.FullEnd = r.o.NoDispatchBatches
	if r.o.DivideOnOutOfMemory {
		loader, err := data.NewStreamLoader(train, r.divider.collate(r.step.Collate), o)
		if err != nil {
			return err
		}
		r.pass = r.divider.batches(loader.Pass)
	} else {
		loader, err := data.NewStreamLoader(train, r.step.Collate, r.recycling(o))
		if err != nil {
			return err
		}
		r.pass = loader.Pass
	}
	if err := r.eval.prepare(valid); err != nil {
		return err
	}
	return r.prepareFlow(newStreamPlan(r.o.Accumulate, r.o.MaxSteps, r.o.Semantics))
}
