package metrics

import "slices"

// Accuracy is the fraction of predictions that equal their reference: accuracy_score of
// scikit-learn. Without pairs it is 0.
type Accuracy[T comparable] struct {
	seen hits
}

// Name returns "accuracy".
func (a *Accuracy[T]) Name() string { return "accuracy" }

// Add counts one pair.
func (a *Accuracy[T]) Add(prediction, reference T) {
	a.seen.add(prediction == reference)
}

// Result returns "accuracy".
func (a *Accuracy[T]) Result() map[string]float64 {
	return map[string]float64{a.Name(): ratio(a.seen.Right, a.seen.Total)}
}

// Reset forgets all pairs.
func (a *Accuracy[T]) Reset() { *a = Accuracy[T]{} }

// State implements [Merger].
func (a *Accuracy[T]) State() ([]byte, error) { return pack(a.Name(), a.seen) }

// Merge implements [Merger].
func (a *Accuracy[T]) Merge(state []byte) error { return a.seen.mergeState(state, a.Name()) }

// ExactMatch is the fraction of texts that equal their reference, or one of several, in every
// byte, including spaces. Without pairs it is 0.
type ExactMatch struct {
	accuracy Accuracy[string]
}

// Name returns "exact_match".
func (e *ExactMatch) Name() string { return "exact_match" }

// Add counts one pair.
func (e *ExactMatch) Add(prediction, reference string) { e.accuracy.Add(prediction, reference) }

// AddReferences counts one text that may equal any of the references. Without references it is
// wrong unless it is empty.
func (e *ExactMatch) AddReferences(prediction string, references ...string) {
	right := len(references) == 0 && prediction == "" || slices.Contains(references, prediction)
	e.accuracy.seen.add(right)
}

// Result returns "exact_match".
func (e *ExactMatch) Result() map[string]float64 {
	return map[string]float64{e.Name(): ratio(e.accuracy.seen.Right, e.accuracy.seen.Total)}
}

// Reset forgets all pairs.
func (e *ExactMatch) Reset() { e.accuracy.Reset() }

// State implements [Merger].
func (e *ExactMatch) State() ([]byte, error) { return pack(e.Name(), e.accuracy.seen) }

// Merge implements [Merger].
func (e *ExactMatch) Merge(state []byte) error { return e.accuracy.seen.mergeState(state, e.Name()) }

// hits counts correct answers among all.
type hits struct{ Right, Total int64 }

func (h *hits) add(right bool) {
	h.Total++
	if right {
		h.Right++
	}
}

func (h *hits) mergeState(state []byte, kind string) error {
	var o hits
	if err := unpack(state, kind, &o); err != nil {
		return err
	}
	h.Right += o.Right
	h.Total += o.Total
	return nil
}
