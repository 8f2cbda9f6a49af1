package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// MeanIoU compares maps of classes pixel by pixel: evaluate's mean_iou. For each class it counts
// the pixels that have the class (the area of its label), those where it was predicted, and those
// where both are so, the intersection. The union is what has or was predicted the class.
type MeanIoU struct {
	// NumLabels is the number of classes. Greater labels and predictions are not counted for any
	// class. Zero: as many as Labels has, or if it has none, all that occur below 65536.
	NumLabels   int
	Labels      []string // the names of the classes in the result; nil: their numbers
	IgnoreIndex *int     // pixels with this label are left out; nil: 255
	// ReduceLabels makes class 0 of the references 255, and subtracts 1 from the others:
	// reduce_labels. Predictions are taken as they are.
	ReduceLabels bool

	counted pixelAreas
}

// pixelAreas are numbers of pixels by class.
type pixelAreas struct{ Intersection, Predicted, Label []int64 }

// Name returns "mean_iou".
func (m *MeanIoU) Name() string { return "mean_iou" }

// Add counts one pixel.
func (m *MeanIoU) Add(prediction, reference int) {
	if m.ReduceLabels {
		switch reference {
		case 0:
			reference = 255
		case 255:
		default:
			reference--
		}
	}
	if reference == m.ignored() {
		return
	}
	counts := func(class int) bool { return class >= 0 && class < cmp.Or(m.classes(), mostLabels) }
	if counts(prediction) {
		m.counted.grow(1 + prediction)
		m.counted.Predicted[prediction]++
	}
	if counts(reference) {
		m.counted.grow(1 + reference)
		m.counted.Label[reference]++
		if prediction == reference {
			m.counted.Intersection[reference]++
		}
	}
}

// mostLabels is how many classes a map of 16 bits can have.
const mostLabels = 1 << 16

// AddAreas counts many pixels, whose areas the caller has computed, with a number for each class.
// The pixels to be left out must not be in them. It is an error if there are not as many numbers in
// each.
func (m *MeanIoU) AddAreas(intersection, predicted, label []int64) error {
	if n := len(label); len(intersection) != n || len(predicted) != n {
		return fmt.Errorf("metrics: mean_iou: areas of %d intersections, %d predictions and %d labels; want as many of each",
			len(intersection), len(predicted), n)
	}
	m.counted.add(pixelAreas{intersection, predicted, label})
	return nil
}

func (m *MeanIoU) ignored() int {
	if m.IgnoreIndex == nil {
		return 255
	}
	return *m.IgnoreIndex
}

// classes is the number of classes that there are to be; 0: all that occur.
func (m *MeanIoU) classes() int { return cmp.Or(m.NumLabels, len(m.Labels)) }

func (a *pixelAreas) add(b pixelAreas) {
	a.grow(len(b.Label))
	for i := range b.Label {
		a.Intersection[i] += b.Intersection[i]
		a.Predicted[i] += b.Predicted[i]
		a.Label[i] += b.Label[i]
	}
}

func (a *pixelAreas) grow(n int) {
	for _, list := range []*[]int64{&a.Intersection, &a.Predicted, &a.Label} {
		if missing := n - len(*list); missing > 0 {
			*list = append(*list, make([]int64, missing)...)
		}
	}
}

// PerCategory returns the intersection over union and the accuracy of each class: per_category_iou
// and per_category_accuracy. The accuracy is the share of the pixels of the class where it was
// predicted. Where there is nothing to divide by, a number is NaN: the IoU of a class that neither
// occurs nor was predicted, and the accuracy of a class that does not occur.
func (m *MeanIoU) PerCategory() (iou, accuracy []float64) {
	n := m.classes()
	if n == 0 {
		n = len(m.counted.Label)
	}
	m.counted.grow(n)
	for i, hit := range m.counted.Intersection[:n] {
		iou = append(iou, float64(hit)/float64(m.counted.Predicted[i]+m.counted.Label[i]-hit))
		accuracy = append(accuracy, float64(hit)/float64(m.counted.Label[i]))
	}
	return iou, accuracy
}

// Result returns "mean_iou", "mean_accuracy", "overall_accuracy", the share of pixels that were
// predicted right, and "iou_NAME" and "accuracy_NAME" for each class, see [MeanIoU.PerCategory].
// The means leave out classes whose number is NaN.
func (m *MeanIoU) Result() map[string]float64 {
	iou, accuracy := m.PerCategory()
	hits, all := int64(0), int64(0)
	for i := range iou {
		hits += m.counted.Intersection[i]
		all += m.counted.Label[i]
	}
	result := map[string]float64{m.Name(): nanMean(iou), "mean_accuracy": nanMean(accuracy),
		"overall_accuracy": float64(hits) / float64(all)}
	for i := range iou {
		name := strconv.Itoa(i)
		if i < len(m.Labels) {
			name = m.Labels[i]
		}
		result["iou_"+name], result["accuracy_"+name] = iou[i], accuracy[i]
	}
	return result
}

// nanMean is numpy.nanmean.
func nanMean(numbers []float64) float64 {
	there := slices.Clone(numbers)
	n := 0
	for i, v := range there {
		if math.IsNaN(v) {
			there[i] = 0
		} else {
			n++
		}
	}
	return pairwise(there) / float64(n)
}

// pairwise is numpy.sum, whose additions are in an order of their own.
func pairwise(v []float64) (sum float64) {
	const lanes, block = 8, 128
	switch n := len(v); {
	case n < lanes:
		for _, x := range v {
			sum += x
		}
		return sum
	case n > block:
		half := n / 2
		half -= half % lanes
		return pairwise(v[:half]) + pairwise(v[half:])
	}
	r := [lanes]float64(v)
	at := lanes
	for ; at+lanes <= len(v); at += lanes {
		for i := range r {
			r[i] += v[at+i]
		}
	}
	sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for _, x := range v[at:] {
		sum += x
	}
	return sum
}

// Reset forgets all pixels.
func (m *MeanIoU) Reset() { m.counted = pixelAreas{} }

// State implements [Merger].
func (m *MeanIoU) State() ([]byte, error) { return pack(m.kind(), m.counted) }

// Merge implements [Merger].
func (m *MeanIoU) Merge(state []byte) error {
	var o pixelAreas
	if err := unpack(state, m.kind(), &o); err != nil {
		return err
	}
	return m.AddAreas(o.Intersection, o.Predicted, o.Label)
}

func (m *MeanIoU) kind() string {
	return fmt.Sprintf("mean_iou of %d classes without %d, reduced: %t", m.classes(), m.ignored(), m.ReduceLabels)
}
