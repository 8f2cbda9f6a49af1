package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/data"
)

// EvalStream is a validation or test set without a length: an IterableDataset. Fit, Evaluate and
// Predict take it where they take a set, also as one of [EvalSets].
//
//	metrics, err := t.Evaluate(ctx, trainer.EvalStream[Sample]{Stream: lines})
//
// Every evaluation reads the first pass of the stream, so it must have samples each time it is
// asked. Samples and speeds are counted while it is read. Options.EvalOrder must be nil, and
// [EvalLoaderMaker] is not asked.
type EvalStream[S any] struct{ Stream data.Stream[S] }

// Len returns -1, since nobody knows.
func (e EvalStream[S]) Len() int { return -1 }

// At reads the stream as far as sample i.
func (e EvalStream[S]) At(i int) (S, error) {
	for s, err := range e.Stream.Samples(0, i) {
		return s, err
	}
	var none S
	return none, fmt.Errorf("trainer: the stream has no sample %d", i)
}

var errEmptyEvalStream = errors.New("the stream has no sample; one that can be read only once cannot be evaluated on " +
	"twice")

// evalPass hands out the batches of an evaluation.
type evalPass[B any] func(ctx context.Context) iter.Seq2[data.StreamBatch[B], error]

// streamPass is that over a stream.
func (ev *evaluator[S, B]) streamPass(e EvalStream[S], shard data.Shard) (evalPass[B], error) {
	switch {
	case e.Stream == nil:
		return nil, errors.New("trainer: an EvalStream without a Stream")
	case ev.o.EvalOrder != nil:
		return nil, wrong("EvalOrder", fmt.Sprintf("%T", ev.o.EvalOrder), "nil, since the order of a stream is its own")
	case ev.o.NoDispatchBatches && shard.WorldSize > 1 && ev.o.Semantics.EvenEvalBatches:
		return nil, wrong("NoDispatchBatches", true, "false for evaluations of streams on several processes under "+
			"semantics.Rules.EvenEvalBatches, or semantics that count each sample once")
	}
	l, err := data.NewStreamLoader(e.Stream, ev.step.Collate, data.LoaderOptions{
		BatchSize: ev.o.EvalBatchSize, Workers: ev.o.Workers, Prefetch: ev.o.Prefetch, BadSample: ev.o.BadSample,
		Shard:    shard,
		DropLast: ev.o.DropLast && ev.o.Semantics.DropLastInEvaluation && !ev.o.Semantics.StreamKeepsLast,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) iter.Seq2[data.StreamBatch[B], error] { return l.Pass(ctx, 0, 0) }, nil
}

// setPass is that over a set of so many samples.
func setPass[B any](loader BatchLoader[B], samples, batchSize int, shard data.Shard) evalPass[B] {
	world := max(1, shard.WorldSize)
	return func(ctx context.Context) iter.Seq2[data.StreamBatch[B], error] {
		return func(yield func(data.StreamBatch[B], error) bool) {
			at := 0 // where the round begins
			for batch, err := range loader.Epoch(ctx, 0, 0) {
				b := data.StreamBatch[B]{Batch: batch, Samples: batchSize,
					Round: max(0, min(batchSize*world, samples-at))}
				if world == 1 || shard.Uneven {
					b.Samples = max(0, min(batchSize, b.Round-shard.Rank*batchSize))
				}
				if !yield(b, err) {
					return
				}
				at += batchSize * world
			}
		}
	}
}
