package engine

import (
	"bytes"
	"encoding/gob"
	"fmt"
)

// Observations are the records that an [Observer] or [Evaluator] makes of an evaluation, one T per
// sample. T is a struct with exported fields, such as the prediction and the expected value. A task
// that embeds Observations is an [ObservationSharer].
//
//	func (t *task) Observe(b Batch, o engine.Outputs) { t.Note(readings(b, o)...) }
//
//	func (t *task) Metrics() map[string]float64 {
//		for _, r := range t.Noted() { ... }
//	}
type Observations[T any] struct {
	fresh, all []T
}

// Note records samples, in their order.
func (n *Observations[T]) Note(samples ...T) { n.fresh = append(n.fresh, samples...) }

// Noted returns all samples of the evaluation, including those of other processes if it is shared,
// in the order of the set, and starts over.
func (n *Observations[T]) Noted() []T {
	all := append(n.all, n.fresh...)
	*n = Observations[T]{}
	return all
}

// SortObserved implements [ObservationSorter].
func (n *Observations[T]) SortObserved(order []int) error {
	noted := n.Noted()
	if len(noted) == 0 {
		return nil
	}
	if len(noted) != len(order) {
		return fmt.Errorf("%d samples were noted of the %d of the evaluation; want one note for each", len(noted),
			len(order))
	}
	n.fresh = make([]T, len(noted))
	for i, at := range order {
		n.fresh[at] = noted[i]
	}
	return nil
}

// TakeObserved implements [ObservationSharer].
func (n *Observations[T]) TakeObserved(rows int) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(n.fresh[:min(rows, len(n.fresh))])
	n.fresh = nil
	if err != nil {
		return nil, fmt.Errorf("engine: Observations[%T] cannot be sent: %w", *new(T), err)
	}
	return b.Bytes(), nil
}

// AddObserved implements [ObservationSharer].
func (n *Observations[T]) AddObserved(part []byte) error {
	var samples []T
	if err := gob.NewDecoder(bytes.NewReader(part)).Decode(&samples); err != nil {
		return fmt.Errorf("engine: Observations[%T] from another process: %w", *new(T), err)
	}
	n.all = append(n.all, samples...)
	return nil
}
