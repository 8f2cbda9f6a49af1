package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/data"
)

var errEmptyStream = errors.New("trainer: the stream has no samples in its first pass")

// idlePasses is the number of consecutive passes over a stream without a step after which a run
// fails. Hugging Face's Trainer would never end. Until then hooks, such as early stopping, can end
// the run.
const idlePasses = 20

// FitStream is [Trainer.Fit] for training data without a length (an IterableDataset).
// Options.MaxSteps is required, since nothing else says when the run ends. The stream is read from
// its first sample again as often as necessary. Options.Order must be nil: the stream decides the
// order.
//
// The end of a pass is the end of an epoch. A window that it cuts short is an update of its own,
// and triggers that count epochs count passes. A pass without samples, such as the second pass of a
// stream that can be read only once, ends the run.
//
// With several processes, each reads the whole stream, which must be the same for all, and trains
// on its part. The samples are distributed as in transformers (dispatch_batches): whole batches in
// turn. What is left at the end of a pass is divided evenly, filled up with the first samples of
// the pass; with Options.NoDispatchBatches it is filled up to full batches.
func (t *Trainer[S, B]) FitStream(ctx context.Context, train data.Stream[S], valid data.Dataset[S]) (*Result, error) {
	return t.fit(ctx, func(r *runner) error { return r.prepareStream(t.stream(train), t.validation(valid)) })
}

// passes iterates over the batches of a pass over the training data, without the first skip ones.
type passes func(ctx context.Context, epoch, skip int) iter.Seq2[data.StreamBatch[any], error]

// batchSizes is implemented by a loader whose batches may be of unequal size, as *data.Loader's are
// with a data.Batcher.
type batchSizes interface{ BatchSamples(epoch int) []int }

// setPasses returns the passes over a data set of n samples; shard is this process's part of it.
func setPasses(loader *loader, n, batchSize int, shard data.Shard) passes {
	samples, world := samplesOf(loader.given, n), max(1, shard.WorldSize)
	return func(ctx context.Context, epoch, skip int) iter.Seq2[data.StreamBatch[any], error] {
		return func(yield func(data.StreamBatch[any], error) bool) {
			i := skip
			var sizes []int
			if s, ok := loader.given.(batchSizes); ok {
				sizes = s.BatchSamples(epoch)
			}
			for batch, err := range loader.Epoch(ctx, epoch, skip) {
				b := data.StreamBatch[any]{Batch: batch, Samples: batchSize,
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
func (r *runner) prepareStream(train stream, valid *validation) error {
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
	var err error
	if r.o.DivideOnOutOfMemory {
		r.pass, err = train.newPasses(o, r.divider.parts)
		r.pass = r.divider.batches(r.pass)
	} else {
		r.pass, err = train.newPasses(r.recycling(o), nil)
	}
	if err != nil {
		return err
	}
	if err := r.eval.prepare(valid); err != nil {
		return err
	}
	return r.prepareFlow(newStreamPlan(r.o.Accumulate, r.o.MaxSteps, r.o.Semantics))
}
