package replay

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
)

// predictions are the outputs and labels of a whole evaluation set, on the CPU.
type predictions struct{ logits, labels []torch.Tensor }

func (p *predictions) add(logits, labels torch.Tensor) {
	p.logits = append(p.logits, logits.CPU().ToDType(torch.Float32).Clone().Keep())
	p.labels = append(p.labels, labels.CPU().ToDType(torch.Float64).Clone().Keep())
}

// compute returns the metrics that a case names. Predicted classes are the argmax over the last
// axis; positions with label -100 are ignored. mae uses the raw outputs.
func (p *predictions) compute(names []string) (out map[string]float64, err error) {
	err = recorded.Try(func() {
		out = map[string]float64{}
		logits, labels := torch.Cat(p.logits, 0), torch.Cat(p.labels, 0).View(-1)
		for _, name := range names {
			if name == "mae" {
				out[name] = mae(logits.View(-1), labels)
			} else if metric, ok := ofClasses[name]; ok {
				pred := logits.ArgMax(-1, false).View(-1).ToDType(torch.Float64)
				if pred.Numel() != labels.Numel() {
					spec.Failf("outputs of shape %v, and %d labels", logits.Shape(), labels.Numel())
				}
				counted := labels.NeScalar(-100)
				out[name] = metric(torch.Values[float64](pred.MaskedSelect(counted)),
					torch.Values[float64](labels.MaskedSelect(counted)))
			} else {
				spec.Refusef("the metric %q", name)
			}
		}
	})
	return out, err
}

// ofClasses are the metrics of predicted and true classes. Labels may be any numbers, as in a
// regression.
var ofClasses = map[string]func(pred, ref []float64) float64{"accuracy": accuracy, "macro_f1": macroF1}

func accuracy(pred, ref []float64) float64 {
	var m metrics.Accuracy[float64]
	for i := range ref {
		m.Add(pred[i], ref[i])
	}
	if len(ref) == 0 {
		return math.NaN() // like numpy's mean of an empty array
	}
	return m.Result()["accuracy"]
}

// macroF1 returns the mean F1 over the classes that occur in predictions or references; F1 is 0
// without true positives.
func macroF1(pred, ref []float64) float64 {
	classes := slices.Compact(slices.Sorted(slices.Values(slices.Concat(pred, ref))))
	if len(classes) == 0 {
		spec.Failf("macro_f1 of an evaluation without labels")
	}
	m := metrics.F1{Average: metrics.Macro()}
	for i := range ref {
		p, _ := slices.BinarySearch(classes, pred[i])
		r, _ := slices.BinarySearch(classes, ref[i])
		m.Add(p, r)
	}
	return m.Result()["f1"]
}

func mae(logits, labels torch.Tensor) float64 {
	if logits.Numel() != labels.Numel() {
		spec.Failf("mae of %d outputs and %d labels", logits.Numel(), labels.Numel())
	}
	apart := torch.Values[float64](logits.ToDType(torch.Float64).Sub(labels).Abs())
	return pyfloat.PairwiseSum(apart) / float64(len(apart))
}
