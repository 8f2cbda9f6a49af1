package metrics

import (
	"maps"
	"slices"
)

// Average says how the scores of classes become one; see [F1]. The zero value is Binary(1).
type Average struct {
	kind     averageKind
	positive int // less one, so that the zero value means label 1
}

type averageKind uint8

const (
	binary averageKind = iota
	macro
	micro
	weighted
)

// Binary scores the one label that is positive; all others are negative.
func Binary(positive int) Average { return Average{kind: binary, positive: positive - 1} }

// Macro is the mean over all labels that occur, as prediction or reference.
func Macro() Average { return Average{kind: macro} }

// Micro counts all labels together. With one label for each sample, precision, recall and F1 are then all the accuracy.
func Micro() Average { return Average{kind: micro} }

// Weighted is the mean over all labels, each as heavy as it is frequent among the references.
func Weighted() Average { return Average{kind: weighted} }

// F1 computes precision, recall and their harmonic mean as scikit-learn's precision_recall_fscore_support does with zero_division=0: what
// would be 0/0 is 0.
type F1 struct {
	Average Average // the zero value scores label 1 against all others
	classes map[int]counts
}

// counts are the outcomes of one label.
type counts struct {
	hits, predicted, actual int64 // hits: both predicted and actual
}

// Name returns "f1".
func (f *F1) Name() string { return "f1" }

// Add counts one pair of labels.
func (f *F1) Add(prediction, reference int) {
	if f.classes == nil {
		f.classes = make(map[int]counts)
	}
	p := f.classes[prediction]
	p.predicted++
	if prediction == reference {
		p.hits++
	}
	f.classes[prediction] = p
	r := f.classes[reference]
	r.actual++
	f.classes[reference] = r
}

// Result returns "f1", "precision" and "recall".
func (f *F1) Result() map[string]float64 {
	var precision, recall, f1 float64
	switch f.Average.kind {
	case binary:
		precision, recall, f1 = f.classes[f.Average.positive+1].scores()
	case micro:
		var all counts
		for _, c := range f.classes {
			all.hits += c.hits
			all.predicted += c.predicted
			all.actual += c.actual
		}
		precision, recall, f1 = all.scores()
	default:
		var total float64
		for _, label := range slices.Sorted(maps.Keys(f.classes)) { // in order: floating-point sums depend on it
			c := f.classes[label]
			weight := 1.0
			if f.Average.kind == weighted {
				weight = float64(c.actual)
			}
			p, r, s := c.scores()
			precision, recall, f1, total = precision+weight*p, recall+weight*r, f1+weight*s, total+weight
		}
		if total > 0 {
			precision, recall, f1 = precision/total, recall/total, f1/total
		}
	}
	return map[string]float64{"f1": f1, "precision": precision, "recall": recall}
}

// Reset forgets all pairs.
func (f *F1) Reset() { f.classes = nil }

func (c counts) scores() (precision, recall, f1 float64) {
	return ratio(c.hits, c.predicted), ratio(c.hits, c.actual), ratio(2*c.hits, c.predicted+c.actual)
}
