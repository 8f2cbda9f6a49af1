package segment

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
)

// Sample is an image as numbers, prepared for a model, with the labels of its pixels.
type Sample struct {
	inputs.Image

	// Labels are the classes of pixels, row by row; nil: they are not known, and nothing is
	// compared.
	Labels []int64
	// LabelShape is the height and the width of the label map, which may be larger than the image
	// that the model sees. Nil: those of the image.
	LabelShape []int64
}

// Batch is some samples of one size.
type Batch struct {
	inputs.Images

	Labels     []int64 // nil: none are known
	LabelShape []int64 // rows, height and width
}

// rows is the number of samples.
func (b Batch) rows() int { return int(b.Shape[0]) }

// Collate joins samples to a batch. It refuses what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	images := make([]inputs.Image, len(samples))
	for i, s := range samples {
		images[i] = s.Image
	}
	if b.Images, err = t.model.ImageLimits().Collate("segment", images, t.pixels.Get); err != nil {
		return b, err
	}
	for i, s := range samples {
		if reason := t.fault(s, samples[0]); reason != "" {
			return b, &inputs.SampleError{Package: "segment", Index: i, Reason: reason}
		}
	}
	if samples[0].Labels == nil {
		return b, nil
	}
	b.LabelShape = append([]int64{int64(len(samples))}, samples[0].labelShape()...)
	size := len(samples[0].Labels)
	b.Labels = t.labels.Get(len(samples) * size)
	for i, s := range samples {
		copy(b.Labels[i*size:], s.Labels)
	}
	return b, nil
}

func (s Sample) labelShape() []int64 {
	if s.LabelShape == nil {
		return s.Shape[1:]
	}
	return s.LabelShape
}

// fault says why a sample cannot be in a batch that begins with first; empty: it can.
func (t *Task) fault(s, first Sample) string {
	if (s.Labels == nil) != (first.Labels == nil) {
		return "some samples of the batch have Labels and others have none; want all or none"
	}
	if s.Labels == nil {
		return ""
	}
	shape, of := s.labelShape(), first.labelShape()
	switch {
	case len(shape) != 2 || shape[0] < 1 || shape[1] < 1:
		return fmt.Sprintf("LabelShape is %v; want a height and a width, or nil", shape)
	case shape[0] != of[0] || shape[1] != of[1]:
		return fmt.Sprintf("its label map has %v rows and columns, and that of the first sample has %v; those of a batch "+
			"have one size", shape, of)
	case int64(len(s.Labels)) != shape[0]*shape[1]:
		return fmt.Sprintf("Labels has %d numbers; its map has %v rows and columns", len(s.Labels), shape)
	}
	for i, label := range s.Labels {
		if reason := check(label, t.classes, t.ignored); reason != "" {
			return fmt.Sprintf("the label in row %d and column %d is %d; %s", int64(i)/shape[1], int64(i)%shape[1], label,
				reason)
		}
	}
	return ""
}
