package classify

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// judge handles logits and labels independently of the kind of input: it computes the loss and the
// metrics of an evaluation.
type judge struct {
	head         Head
	metrics      []metrics.Metric[int]     // except for a regression
	valueMetrics []metrics.Metric[float64] // for a regression
	sumWindow    bool

	observed []observed                  // of the running evaluation
	shared   engine.Observations[judged] // the same of all processes, where they share it out
}

// judged holds the predictions and labels of one sample; classes are stored as numbers. It is empty
// if the sample's label is ignored.
type judged struct{ Got, Want []float64 }

// observed is a batch of an evaluation; what the model predicted stays on the device until the end.
type observed struct {
	predicted torch.Tensor // classes, or logits
	answers   answers
}

// answers are the labels of a batch.
type answers struct {
	rows    int
	labels  []int64   // for a single-label head
	targets []float32 // else: rows times labels
}

func newJudge(h Head, m []metrics.Metric[int], v []metrics.Metric[float64], sumWindow bool) (judge, error) {
	j := judge{head: h, metrics: m, valueMetrics: v, sumWindow: sumWindow}
	switch {
	case len(m) > 0 && h.ProblemType == Regression:
		return j, errors.New("classify: TaskOptions.Metrics compare classes, but the model is a regression; want " +
			"ValueMetrics")
	case len(v) > 0 && h.ProblemType != Regression:
		return j, errors.New("classify: TaskOptions.ValueMetrics compare numbers, but the model tells classes; " +
			"want Metrics")
	case h.ProblemType == Regression && v == nil:
		j.valueMetrics = []metrics.Metric[float64]{&metrics.MSE{}, &metrics.MAE{}}
	case h.ProblemType != Regression && m == nil:
		j.metrics = []metrics.Metric[int]{&metrics.Accuracy[int]{}}
	}
	return j, nil
}

// fault says why a sample cannot have such a label, or such targets; empty: it can.
func (j *judge) fault(label int64, targets []float32) string {
	if j.head.ProblemType == SingleLabel {
		if len(targets) > 0 {
			return fmt.Sprintf("Targets has %d numbers, but a head for %s learns Label; want no Targets, or another "+
				"ProblemType (of auto.Options, or problem_type in config.json)", len(targets), j.head.ProblemType)
		}
		if (label < 0 || label >= j.head.NumLabels) && label != ignored {
			return fmt.Sprintf("Label is %d; want 0 to %d, or %d to leave the sample out of the loss", label,
				j.head.NumLabels-1, ignored)
		}
		return ""
	}
	if int64(len(targets)) != j.head.NumLabels {
		return fmt.Sprintf("Targets has %d numbers; a head for %s with %d labels wants as many", len(targets),
			j.head.ProblemType, j.head.NumLabels)
	}
	for i, v := range targets {
		if v != v || j.head.ProblemType == MultiLabel && (v < 0 || v > 1) {
			return fmt.Sprintf("Targets[%d] is %g; want a number, and for several labels one from 0 to 1", i, v)
		}
	}
	return ""
}

// take adds the label of a sample, or its targets, to those of a batch.
func (j *judge) take(a *answers, label int64, targets []float32) {
	a.rows++
	if j.head.ProblemType == SingleLabel {
		a.labels = append(a.labels, label)
	} else {
		a.targets = append(a.targets, targets...)
	}
}

// counted is the number of samples that the loss is the mean over.
func (a answers) counted() int64 {
	n := int64(a.rows)
	for _, label := range a.labels {
		if label == ignored {
			n--
		}
	}
	return n
}

func (j *judge) labels(p engine.ForwardPass, a answers) torch.Tensor {
	if j.head.ProblemType == SingleLabel {
		return engine.Input(p, a.labels)
	}
	return engine.Input(p, a.targets, int64(a.rows), j.head.NumLabels)
}

// LossOf computes [Head.Loss].
func (j *judge) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	value := j.head.Loss(o.Logits[0], o.Labels[0])
	if j.sumWindow {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

// observe records an evaluation batch.
func (j *judge) observe(a answers, o engine.Outputs) {
	predicted := o.Logits[0].Detach()
	if j.head.ProblemType == SingleLabel {
		predicted = predicted.ArgMax(-1, false)
	}
	j.observed = append(j.observed, observed{predicted.Keep(), a})
}

// Metrics ends an evaluation.
func (j *judge) Metrics() map[string]float64 {
	for _, noted := range j.shared.Noted() {
		for i, got := range noted.Got {
			j.add(got, noted.Want[i])
		}
	}
	j.tell(func(_ int, got, want float64) { j.add(got, want) })
	if j.head.ProblemType == Regression {
		return engine.Results(j.valueMetrics)
	}
	return engine.Results(j.metrics)
}

// TakeObserved waits for the device and returns the predictions for the first rows samples since
// the last call.
func (j *judge) TakeObserved(rows int) ([]byte, error) {
	j.note()
	return j.shared.TakeObserved(rows)
}

// SortObserved reorders the observed samples: engine.ObservationSorter.
func (j *judge) SortObserved(order []int) error {
	j.note()
	return j.shared.SortObserved(order)
}

// note waits for the device and records the observed samples.
func (j *judge) note() {
	samples := 0
	for _, o := range j.observed {
		samples += o.answers.rows
	}
	all := make([]judged, samples)
	j.tell(func(sample int, got, want float64) {
		all[sample].Got, all[sample].Want = append(all[sample].Got, got), append(all[sample].Want, want)
	})
	j.shared.Note(all...)
}

// AddObserved adds what TakeObserved returned on some process.
func (j *judge) AddObserved(part []byte) error { return j.shared.AddObserved(part) }

// tell waits for the device and calls to with each prediction of the observed samples.
func (j *judge) tell(to func(sample int, got, want float64)) {
	first := 0
	for _, o := range j.observed {
		torch.Scope(func() { j.tellBatch(o, first, to) })
		o.predicted.Free()
		first += o.answers.rows
	}
	j.observed = nil
}

func (j *judge) tellBatch(o observed, first int, to func(sample int, got, want float64)) {
	if j.head.ProblemType == SingleLabel {
		for i, got := range torch.Values[int64](o.predicted) {
			if o.answers.labels[i] != ignored {
				to(first+i, float64(got), float64(o.answers.labels[i]))
			}
		}
		return
	}
	for i, got := range torch.Values[float32](o.predicted.ToDType(torch.Float32)) {
		sample, got, want := first+i/int(j.head.NumLabels), float64(got), float64(o.answers.targets[i])
		if j.head.ProblemType == MultiLabel {
			got, want = bit(got > 0), bit(want > 0.5) // a logit of 0 is a probability of one half
		}
		to(sample, got, want)
	}
}

func (j *judge) add(got, want float64) {
	if j.head.ProblemType == Regression {
		for _, m := range j.valueMetrics {
			m.Add(got, want)
		}
		return
	}
	for _, m := range j.metrics {
		m.Add(int(got), int(want))
	}
}

func bit(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
