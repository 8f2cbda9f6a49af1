package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
)

// predictions are the outputs and labels of a whole evaluation set, as numbers.
type predictions struct {
	logits []float32
	width  int // length of the last axis of the logits
	labels []float64
	tail   []int64 // the shape of the first batch's logits without rows
	uneven bool    // another batch's is different
}

// add appends a batch.
func (p *predictions) add(logits, labels torch.Tensor) {
	if tail := logits.Shape()[min(1, logits.Dim()):]; p.logits == nil {
		p.tail = tail
	} else {
		p.uneven = p.uneven || !slices.Equal(tail, p.tail)
	}
	p.logits = append(p.logits, torch.Values[float32](logits.ToDType(torch.Float32))...)
	if p.width = len(p.logits); logits.Dim() > 1 { // of one dimension the last axis is the set itself
		p.width = int(logits.Size(-1))
	}
	p.labels = append(p.labels, torch.Values[float64](labels.ToDType(torch.Float64))...)
}

// compute returns the metrics that a case names. Classes are the largest of the last axis;
// positions with the label -100 are left out. mae is of the raw outputs.
func (p *predictions) compute(names []string) (map[string]float64, error) {
	if p.uneven {
		return nil, fmt.Errorf("the outputs of the batches have different shapes and make no array")
	}
	out := map[string]float64{}
	for _, name := range names {
		var err error
		switch name {
		case "mae":
			out[name], err = p.mae()
		case "accuracy":
			var pred, ref []float64
			if pred, ref, err = p.classes(); err == nil {
				out[name] = accuracy(pred, ref)
			}
		case "macro_f1":
			var pred, ref []float64
			if pred, ref, err = p.classes(); err == nil {
				out[name], err = macroF1(pred, ref)
			}
		default:
			err = spec.Unsupportedf("the metric %q", name)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// classes returns the predicted and the true classes of the positions that have one. Labels may be
// any numbers, as those of a regression are.
func (p *predictions) classes() (pred, ref []float64, err error) {
	if len(p.labels)*p.width != len(p.logits) {
		return nil, nil, fmt.Errorf("%d outputs, the largest of every %d of which is a class, and %d labels",
			len(p.logits), p.width, len(p.labels))
	}
	for i, label := range p.labels {
		if label != -100 {
			pred, ref = append(pred, float64(argmax(p.logits[i*p.width:(i+1)*p.width]))), append(ref, label)
		}
	}
	return pred, ref, nil
}

// argmax is numpy's: the first of the largest, and nan is larger than anything.
func argmax(v []float32) int {
	best := 0
	for i, x := range v {
		if math.IsNaN(float64(v[best])) {
			break
		}
		if x > v[best] || math.IsNaN(float64(x)) {
			best = i
		}
	}
	return best
}

func accuracy(pred, ref []float64) float64 {
	same := 0
	for i := range ref {
		if pred[i] == ref[i] {
			same++
		}
	}
	return float64(same) / float64(len(ref))
}

// macroF1 is the mean of F1 over the classes that occur in predictions or references, 0 for one
// without true positives.
func macroF1(pred, ref []float64) (float64, error) {
	classes := slices.Concat(pred, ref)
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if len(classes) == 0 {
		return 0, fmt.Errorf("macro_f1 of an evaluation without labels")
	}
	sum := 0.0
	for _, c := range classes {
		tp, fp, fn := 0, 0, 0
		for i := range ref {
			switch {
			case pred[i] == c && ref[i] == c:
				tp++
			case pred[i] == c:
				fp++
			case ref[i] == c:
				fn++
			}
		}
		if tp > 0 {
			sum += float64(2*tp) / float64(2*tp+fp+fn)
		}
	}
	return sum / float64(len(classes)), nil
}

func (p *predictions) mae() (float64, error) {
	if len(p.logits) != len(p.labels) {
		return 0, fmt.Errorf("mae of %d outputs and %d labels", len(p.logits), len(p.labels))
	}
	apart := make([]float64, len(p.labels))
	for i := range apart {
		apart[i] = math.Abs(float64(p.logits[i]) - p.labels[i])
	}
	return pairwiseSum(apart) / float64(len(apart)), nil
}

// pairwiseSum is numpy's sum of a contiguous array of float64: eight running sums in blocks of at
// most 128, halves above.
func pairwiseSum(v []float64) float64 {
	n := len(v)
	switch {
	case n < 8:
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return sum
	case n <= 128:
		var r [8]float64
		copy(r[:], v)
		i := 8
		for ; i < n-n%8; i += 8 {
			for k := range r {
				r[k] += v[i+k]
			}
		}
		sum := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
		for ; i < n; i++ {
			sum += v[i]
		}
		return sum
	}
	half := n / 2
	half -= half % 8
	return pairwiseSum(v[:half]) + pairwiseSum(v[half:])
}
