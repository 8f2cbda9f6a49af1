package engine

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
)

// Loader makes the loaders of a run that sends batches ahead, keeps its training set on the device
// or evaluates by length; else it leaves them to the trainer.
func (s *Step[S, B]) Loader(set data.Dataset[S], o trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	if s.resident != nil && o.Evaluation == nil {
		loader, err := residentLoader(s.resident, set, s.task, o.LoaderOptions)
		if err != nil {
			return nil, err
		}
		return loader, nil
	}
	sorted := s.options.SortEvalByLength && o.Evaluation != nil
	if !sorted && s.early == nil {
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
	loader, err := data.NewLoader(set, s.Collate, o.LoaderOptions)
	if err != nil {
		return nil, err
	}
	batches := trainer.BatchLoader[B](loader)
	if s.early != nil {
		batches = prefetchLoader[S, B]{loader, s.early}
	}
	if sorted {
		batches = &sortedLoader[S, B]{loader, batches, order, &s.eval}
	}
	return batches, nil
}
