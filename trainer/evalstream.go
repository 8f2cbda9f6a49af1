package trainer

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
)

// EvalStream is a validation or test set without a length (an IterableDataset). Fit, Evaluate and
// Predict accept it in place of a set, also as one of [EvalSets].
//
//	metrics, err := t.Evaluate(ctx, trainer.EvalStream[Sample]{Stream: lines})
//
// Every evaluation reads the first pass of the stream, so the stream must deliver samples each
// time. Samples and speeds are counted while it is read. Options.EvalOrder must be nil, and
// [EvalLoaderMaker] is not called.
type EvalStream[S any] struct{ Stream data.Stream[S] }

// Len returns -1, since the length is not known.
func (e EvalStream[S]) Len() int { return -1 }

// At reads the stream up to sample i and returns that sample.
func (e EvalStream[S]) At(i int) (S, error) {
	for s, err := range e.Stream.Samples(0, i) {
		return s, err
	}
	var none S
	return none, fmt.Errorf("trainer: the stream has no sample %d", i)
}

var errEmptyEvalStream = errors.New("the stream has no samples; a stream that can be read only once cannot be " +
	"evaluated twice")

// streamPasses returns the passes of an evaluation over a stream.
func (ev *evaluator) streamPasses(s stream, shard data.Shard) (passes, error) {
	switch {
	case s == nil:
		return nil, errors.New("trainer: an EvalStream without a Stream")
	case ev.o.EvalOrder != nil:
		return nil, wrong("EvalOrder", fmt.Sprintf("%T", ev.o.EvalOrder), "nil, since the order of a stream is its own")
	case ev.o.NoDispatchBatches && shard.WorldSize > 1 && ev.o.Semantics.EvenEvalBatches:
		return nil, wrong("NoDispatchBatches", true, "false for evaluations of streams on several processes under "+
			"semantics.Rules.EvenEvalBatches, or semantics that count each sample once")
	}
	return s.newPasses(data.LoaderOptions{
		BatchSize: ev.o.EvalBatchSize, Workers: ev.o.Workers, Prefetch: ev.o.Prefetch, BadSample: ev.o.BadSample,
		Shard:    shard,
		DropLast: ev.o.DropLast && ev.o.Semantics.DropLastInEvaluation && !ev.o.Semantics.StreamKeepsLast,
	}, nil)
}
