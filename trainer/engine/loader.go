package engine

import (
	"context"
	"iter"

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

// plainLoader is a loader of package data.
type plainLoader[B any] interface {
	lengths
	Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error]
}

// pass is the method Epoch of a loader as a function.
type pass[B any] func(ctx context.Context, epoch, skip int) iter.Seq2[B, error]

func (p pass[B]) Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
	return p(ctx, epoch, skip)
}

// loader is [Step.Loader].
func (s *core) loader(set samples, o trainer.LoaderOptions) (*loader[any], error) {
	if v, ok := s.task.given.(BatchSizeValidator); ok && o.Evaluation == nil {
		if err := v.ValidateBatchSize(o.BatchSize); err != nil {
			return nil, err
		}
	}
	if s.resident != nil && o.Evaluation == nil {
		return s.resident.loader(set, o.LoaderOptions)
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
	plain, err := set.loader(o.LoaderOptions)
	if err != nil {
		return nil, err
	}
	batches := pass[any](plain.Epoch)
	if s.prefetcher != nil {
		batches = sendAhead(s.prefetcher, batches)
	}
	return &loader[any]{plain, func(ctx context.Context, epoch, skip int) iter.Seq2[any, error] {
		s.eval.order = order // set when the pass begins, which is on the goroutine of the run
		return batches(ctx, epoch, skip)
	}}, nil
}
