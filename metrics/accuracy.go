package metrics

// Accuracy is the fraction of predictions that equal their reference: accuracy_score of scikit-learn. Of no pairs it is 0.
type Accuracy[T comparable] struct {
	right, total int64
}

// Name returns "accuracy".
func (a *Accuracy[T]) Name() string { return "accuracy" }

// Add counts one pair.
func (a *Accuracy[T]) Add(prediction, reference T) {
	a.total++
	if prediction == reference {
		a.right++
	}
}

// Result returns "accuracy".
func (a *Accuracy[T]) Result() map[string]float64 {
	return map[string]float64{a.Name(): ratio(a.right, a.total)}
}

// Reset forgets all pairs.
func (a *Accuracy[T]) Reset() { *a = Accuracy[T]{} }

// ExactMatch is the fraction of texts that equal their reference in every byte, spaces too. Of no pairs it is 0.
type ExactMatch struct {
	accuracy Accuracy[string]
}

// Name returns "exact_match".
func (e *ExactMatch) Name() string { return "exact_match" }

// Add counts one pair.
func (e *ExactMatch) Add(prediction, reference string) { e.accuracy.Add(prediction, reference) }

// Result returns "exact_match".
func (e *ExactMatch) Result() map[string]float64 {
	return map[string]float64{e.Name(): ratio(e.accuracy.right, e.accuracy.total)}
}

// Reset forgets all pairs.
func (e *ExactMatch) Reset() { e.accuracy.Reset() }
