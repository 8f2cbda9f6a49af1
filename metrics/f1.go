package metrics

import (
	"maps"
	"math"
	"slices"
)

// Average says how the scores of classes are combined; see [F1]. The zero value is Binary(1).
type Average struct {
	kind     averageKind
	positive int // the positive label minus one, so that the zero value means label 1
}

type averageKind uint8

const (
	binary averageKind = iota
	macro
	micro
	weighted
)

// Binary scores one label as positive; all others are negative.
func Binary(positive int) Average { return Average{kind: binary, positive: positive - 1} }

// Macro is the mean over all labels that occur, as predictions or references.
func Macro() Average { return Average{kind: macro} }

// Micro counts all labels together. With one label for each sample, precision, recall and F1 are
// then all the accuracy.
func Micro() Average { return Average{kind: micro} }

// Weighted is the mean over all labels, weighted by their frequency among the references.
func Weighted() Average { return Average{kind: weighted} }

// F1 computes precision, recall and their harmonic mean as scikit-learn's
// precision_recall_fscore_support does. [Precision] and [Recall] are the same under another name.
type F1 struct {
	Average Average // the zero value scores label 1 against all others

	// ZeroDivision is the value of 0/0: 0, 1, or NaN, which excludes the class from a mean. It is
	// scikit-learn's zero_division.
	ZeroDivision float64

	// Labels are the classes to average over; nil means all that occur. A listed class counts even
	// if it does not occur.
	Labels []int

	classes map[int]counts
}

// counts are the outcomes of one label.
type counts struct {
	Hits, Predicted, Actual int64 // Hits: both predicted and actual
}

// ClassScores are the scores of one class by itself: average=None of scikit-learn.
type ClassScores struct {
	Label                 int
	Precision, Recall, F1 float64
	Support               int64 // number of references with this label
}

// Name returns "f1".
func (f *F1) Name() string { return "f1" }

// Add counts one pair of labels.
func (f *F1) Add(prediction, reference int) {
	if f.classes == nil {
		f.classes = make(map[int]counts)
	}
	p := f.classes[prediction]
	p.Predicted++
	if prediction == reference {
		p.Hits++
	}
	f.classes[prediction] = p
	r := f.classes[reference]
	r.Actual++
	f.classes[reference] = r
}

// Result returns "f1", "precision" and "recall".
func (f *F1) Result() map[string]float64 {
	labels := f.labels()
	var precision, recall, f1 float64
	switch f.Average.kind {
	case binary:
		precision, recall, f1 = f.classes[f.Average.positive+1].scores(f.ZeroDivision)
	case micro:
		var all counts
		for _, label := range labels {
			all.add(f.classes[label])
		}
		precision, recall, f1 = all.scores(f.ZeroDivision)
	case macro, weighted:
		var p, r, s mean
		for _, label := range labels {
			c := f.classes[label]
			weight := 1.0
			if f.Average.kind == weighted {
				weight = float64(c.Actual)
			}
			a, b, h := c.scores(f.ZeroDivision)
			p.add(a, weight)
			r.add(b, weight)
			s.add(h, weight)
		}
		precision, recall, f1 = p.value(f.ZeroDivision), r.value(f.ZeroDivision), s.value(f.ZeroDivision)
	}
	return map[string]float64{"f1": f1, "precision": precision, "recall": recall}
}

// Classes returns the scores of each class, in the order of Labels or of the labels.
func (f *F1) Classes() []ClassScores {
	labels := f.labels()
	list := make([]ClassScores, len(labels))
	for i, label := range labels {
		c := f.classes[label]
		list[i] = ClassScores{Label: label, Support: c.Actual}
		list[i].Precision, list[i].Recall, list[i].F1 = c.scores(f.ZeroDivision)
	}
	return list
}

// labels returns the labels that are averaged, in a fixed order, since floating-point sums depend
// on it.
func (f *F1) labels() []int {
	if f.Labels != nil {
		return f.Labels
	}
	return slices.Sorted(maps.Keys(f.classes))
}

// Reset forgets all pairs.
func (f *F1) Reset() { f.classes = nil }

// State implements [Merger].
func (f *F1) State() ([]byte, error) { return pack("f1", f.classes) }

// Merge implements [Merger].
func (f *F1) Merge(state []byte) error {
	var o map[int]counts
	if err := unpack(state, "f1", &o); err != nil {
		return err
	}
	if f.classes == nil {
		f.classes = make(map[int]counts, len(o))
	}
	for label, c := range o {
		all := f.classes[label]
		all.add(c)
		f.classes[label] = all
	}
	return nil
}

func (c *counts) add(o counts) {
	c.Hits += o.Hits
	c.Predicted += o.Predicted
	c.Actual += o.Actual
}

func (c counts) scores(zero float64) (precision, recall, f1 float64) {
	return quotient(c.Hits, c.Predicted, zero), quotient(c.Hits, c.Actual, zero),
		quotient(2*c.Hits, c.Predicted+c.Actual, zero)
}

// quotient returns a/b, or zero for 0/0.
func quotient(a, b int64, zero float64) float64 {
	if b == 0 {
		return zero
	}
	return float64(a) / float64(b)
}

// mean is a weighted mean that leaves out NaN. If all weights are 0 it is the plain mean, like
// numpy's in scikit-learn.
type mean struct {
	sum, weight, plain float64
	n, skipped         int
}

func (m *mean) add(x, weight float64) {
	if math.IsNaN(x) {
		m.skipped++
		return
	}
	m.sum += weight * x
	m.weight += weight
	m.plain += x
	m.n++
}

// value returns the mean, or empty if there are no values.
func (m *mean) value(empty float64) float64 {
	switch {
	case m.n == 0 && m.skipped > 0:
		return math.NaN()
	case m.n == 0:
		return empty
	case m.weight == 0:
		return m.plain / float64(m.n)
	}
	return m.sum / m.weight
}
