package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Lengther is a [Task] that knows how long its samples are, in tokens or in whatever unit its
// batches are padded in; see [Options].SortEvalByLength.
type Lengther[S any] interface {
	Length(sample S) int
}

// ObservationSorter is an [Observer] or [Evaluator] that can reorder what it has recorded of an
// evaluation. [Observations] implements it.
type ObservationSorter interface {
	// SortObserved moves the record of sample i, in the order of recording, to position order[i].
	SortObserved(order []int) error
}

// checkSortedEval refuses SortEvalByLength if the task cannot sort its samples or cannot restore
// their order.
func (s *core) checkSortedEval(r *refusals) {
	on, observes := s.options.SortEvalByLength, s.task.isObserver || s.task.isEvaluator
	r.when(on && !s.task.isLengther, "SortEvalByLength is set, but %T does not know how long samples are: it "+
		"must implement engine.Lengther", s.task.given)
	r.when(on && observes && !is[ObservationSorter](s.task.given), "SortEvalByLength is set, but %T cannot put what it "+
		"notes back into the order of the set: it must implement engine.ObservationSorter, as engine.Observations does",
		s.task.given)
}

func (s *core) evalOrder(set samples, o trainer.LoaderOptions) (sortedOrder, error) {
	_, sequential := o.Order.(data.Sequential)
	switch {
	case o.Order != nil && !sequential:
		return nil, errors.New("engine: Options.SortEvalByLength and trainer.Options.EvalOrder are both set; want one of " +
			"them")
	case o.BadSample != nil:
		return nil, errors.New("engine: Options.SortEvalByLength is set, and trainer.Options.BadSample may leave samples " +
			"out, whose predictions would then be missing; want one of them")
	}
	rows := min(set.count(), o.Evaluation.Rows) // a limited evaluation uses the first samples of the set
	if o.DropLast {
		rows -= rows % o.BatchSize
	}
	return byLength(set, rows)
}

type sortedOrder []int

func (o sortedOrder) Indices(int, int) []int { return slices.Clone(o) }
func (o sortedOrder) Count(int) int          { return len(o) }

// byLength orders the first rows samples of a set, longest first, so that a lack of memory shows at
// once.
func byLength(set samples, rows int) (sortedOrder, error) {
	lengths, order := make([]int, rows), make(sortedOrder, rows)
	for i := range rows {
		length, err := set.length(i)
		if err != nil {
			return nil, fmt.Errorf("engine: the length of sample %d (Options.SortEvalByLength): %w", i, err)
		}
		lengths[i], order[i] = length, i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lengths[b], lengths[a]) })
	return order, nil
}

// sortObserved puts what the task has recorded into the order of the set.
func (s *core) sortObserved() error {
	sorter, ok := s.task.given.(ObservationSorter)
	if s.eval.order == nil || !ok {
		return nil
	}
	if err := sorter.SortObserved(s.eval.order); err != nil {
		return fmt.Errorf("engine: Options.SortEvalByLength: %T: %w", s.task.given, err)
	}
	return nil
}

// inOrder puts predictions into the order of the set; row i is that of sample order[i].
func (p *Predictions) inOrder(order []int) error {
	if order == nil {
		return nil
	}
	from := make([]int64, len(order))
	for i, sample := range order {
		from[sample] = int64(i)
	}
	index := torch.From(from)
	for _, list := range p.lists() {
		for i, t := range *list {
			if n := t.Size(0); n != int64(len(order)) {
				return fmt.Errorf("engine: Options.SortEvalByLength: the outputs have %d rows for %d samples, so that they "+
					"cannot be put back into the order of the set", n, len(order))
			}
			(*list)[i] = t.IndexSelect(0, index).Keep()
			t.Free()
		}
	}
	return nil
}
