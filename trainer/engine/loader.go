package engine

import (
	"context"
	"iter"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
)

// loader has the lengths of a loader of package data, but its own passes.
type loader[B any] struct {
	lengths
	pass[B]
}

type lengths interface {
	Len() int
	Samples() int
}

// pass is the method Epoch of a loader as a function.
type pass[B any] func(ctx context.Context, epoch, skip int) iter.Seq2[B, error]

func (p pass[B]) Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
	return p(ctx, epoch, skip)
}

// Loader makes the loaders of a run that sends batches ahead, keeps its training set on the device
// or evaluates by length. In all other cases it leaves them to the trainer. It refuses a batch size
// that the task does ([BatchSizeValidator]).
func (s *Step[S, B]) Loader(set data.Dataset[S], o trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	if v, ok := s.task.(BatchSizeValidator); ok && o.Evaluation == nil {
		if err := v.ValidateBatchSize(o.BatchSize); err != nil {
			return nil, err
		}
	}
	if s.resident != nil && o.Evaluation == nil {
		return residentLoader(s.resident, set, s.task, o.LoaderOptions)
	}
	sorted := s.options.SortEvalByLength && o.Evaluation != nil
	if !sorted && s.prefetcher == nil {
		return nil, nil
	}
	var order sortedOrder
	if sorted {
		var err error
		if order, err = s.evalOrder(set, o); err != nil {
			return nil, err
		}
		o.Order = order
	}
	plain, err := data.NewLoader(set, s.Collate, o.LoaderOptions)
	if err != nil {
		return nil, err
	}
	batches := pass[B](plain.Epoch)
	if s.prefetcher != nil {
		batches = sendAhead(s.prefetcher, batches)
	}
	return loader[B]{plain, func(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
		s.eval.order = order // set when the pass begins, which is on the goroutine of the run
		return batches(ctx, epoch, skip)
	}}, nil
}
