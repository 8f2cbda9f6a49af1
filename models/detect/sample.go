package detect

import (
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Label is an object that a model should find.
type Label struct {
	Class int64
	Box   Box // as shares of the sides of the pixels, padding included
}

// Sample is an image as numbers, prepared for a model, with the objects in it.
type Sample struct {
	inputs.Image

	// Height and Width are those of the part of Pixels that is image; padding is below it and to its
	// right. Zero: there is no padding.
	Height, Width int64
	// Labels are what training is about.
	Labels []Label

	// ImageHeight and ImageWidth are the size of the image before it was prepared, in which an
	// evaluation compares boxes. Zero: Height and Width.
	ImageHeight, ImageWidth int64
	// Objects are what an evaluation compares with, crowds included.
	Objects []Object
}

// SetObjects sets Objects, and Labels to those that training is about: crowds are left out, and
// boxes are cut at the borders of the image and left out if nothing remains. The sizes of the
// sample must be set. The numbers are those of transformers' image processors.
func (s *Sample) SetObjects(objects []Object) {
	s.Objects, s.Labels = objects, nil
	original, extent := s.original(), s.extent()
	height, width := float32(original[0]), float32(original[1])
	ratio := func(i int) float32 { return float32(float64(extent[i]) / float64(original[i])) }
	for _, o := range objects {
		if o.Crowd {
			continue
		}
		x, y := float32(o.X), float32(o.Y)
		right, bottom := min(max(x+float32(o.Width), 0), width), min(max(y+float32(o.Height), 0), height)
		x, y = min(max(x, 0), width), min(max(y, 0), height)
		if !(right > x && bottom > y) {
			continue
		}
		// Conversions forbid fused multiply-adds.
		x, right = float32(x*ratio(1)), float32(right*ratio(1))
		y, bottom = float32(y*ratio(0)), float32(bottom*ratio(0))
		w, h := float32(extent[1]), float32(extent[0])
		box := Box{float32((x+right)/2) / w, float32((y+bottom)/2) / h, float32(right-x) / w, float32(bottom-y) / h}
		if s.Shape[1] != extent[0] || s.Shape[2] != extent[1] {
			box = box.scaled(float64(extent[1])/float64(s.Shape[2]), float64(extent[0])/float64(s.Shape[1]))
		}
		s.Labels = append(s.Labels, Label{int64(o.Class), box})
	}
}

// extent returns the height and width of the part that is image.
func (s Sample) extent() [2]int64 {
	if s.Height == 0 && s.Width == 0 {
		return [2]int64{s.Shape[1], s.Shape[2]}
	}
	return [2]int64{s.Height, s.Width}
}

// original returns the size of the image before it was prepared.
func (s Sample) original() [2]int64 {
	if s.ImageHeight == 0 && s.ImageWidth == 0 {
		return s.extent()
	}
	return [2]int64{s.ImageHeight, s.ImageWidth}
}

// Batch is some images, padded with zeros below and to the right to the size of the largest.
type Batch struct {
	inputs.Images
	Extents [][2]int64 // height and width of the part of each that is image
	Labels

	Originals [][2]int64 // height and width of each before it was prepared
	Objects   [][]Object
}

// SampleError is a sample that a model cannot take.
type SampleError = inputs.SampleError

// Collate pads images to a batch. It refuses what the model cannot take, before it can fail inside
// an operator.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	limits, height, width := t.model.ImageLimits(), int64(0), int64(0)
	for i, s := range samples {
		if reason := t.fault(limits, s); reason != "" {
			return b, &SampleError{Package: "detect", Index: i, Reason: reason}
		}
		height, width = max(height, s.Shape[1]), max(width, s.Shape[2])
	}
	b.Shape = []int64{int64(len(samples)), limits.Channels, height, width}
	plane := int(height * width)
	b.Pixels = t.pixels.Get(len(samples) * int(limits.Channels) * plane)
	clear(b.Pixels)
	for i, s := range samples {
		for c := range int(limits.Channels) {
			into := b.Pixels[(i*int(limits.Channels)+c)*plane:]
			for y := range int(s.Shape[1]) {
				from := s.Pixels[(c*int(s.Shape[1])+y)*int(s.Shape[2]):]
				copy(into[y*int(width):], from[:s.Shape[2]])
			}
		}
		b.Counts = append(b.Counts, len(s.Labels))
		for _, l := range s.Labels {
			if s.Shape[1] != height || s.Shape[2] != width {
				l.Box = l.Box.scaled(float64(s.Shape[2])/float64(width), float64(s.Shape[1])/float64(height))
			}
			b.Classes, b.Boxes = append(b.Classes, l.Class), append(b.Boxes, l.Box)
		}
		b.Extents, b.Originals = append(b.Extents, s.extent()), append(b.Originals, s.original())
		b.Objects = append(b.Objects, s.Objects)
	}
	return b, nil
}

// fault says why a model cannot take a sample; empty: it can.
func (t *Task) fault(limits inputs.ImageLimits, s Sample) string {
	if reason := limits.Fault(s.Image); reason != "" {
		return reason
	}
	if e := s.extent(); e[0] < 1 || e[1] < 1 || e[0] > s.Shape[1] || e[1] > s.Shape[2] {
		return fmt.Sprintf("the image has %dx%d pixels of Shape %v; want a part of it", e[0], e[1], s.Shape)
	}
	for i, o := range s.Objects {
		if o.Class < 0 || int64(o.Class) >= t.model.Head().NumLabels {
			return fmt.Sprintf("Objects[%d].Class is %d; want 0 to %d", i, o.Class, t.model.Head().NumLabels-1)
		}
	}
	for i, l := range s.Labels {
		if l.Class < 0 || l.Class >= t.model.Head().NumLabels {
			return fmt.Sprintf("Labels[%d].Class is %d; want 0 to %d", i, l.Class, t.model.Head().NumLabels-1)
		}
		b := l.Box
		for _, v := range [...]float32{b.CenterX, b.CenterY, b.Width, b.Height} {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) || b.Width <= 0 || b.Height <= 0 {
				return fmt.Sprintf("Labels[%d].Box is %+v; want finite numbers, and a box with a width and a height", i, b)
			}
		}
	}
	return ""
}

// OriginalSize returns the width and height that the padded image of row i would have at the scale
// of the image before it was prepared: what boxes are shares of.
func (b Batch) OriginalSize(i int) (width, height float64) {
	if b.Extents[i] == [2]int64{b.Shape[2], b.Shape[3]} {
		return float64(b.Originals[i][1]), float64(b.Originals[i][0])
	}
	return float64(b.Originals[i][1]) * float64(b.Shape[3]) / float64(b.Extents[i][1]),
		float64(b.Originals[i][0]) * float64(b.Shape[2]) / float64(b.Extents[i][0])
}

// Mask returns the pixel mask, [B, height, width]: 1 where there is image and 0 in padding. It is
// undefined if there is no padding.
func (b Batch) Mask(p engine.ForwardPass) torch.Tensor {
	rows, height, width := int(b.Shape[0]), int(b.Shape[2]), int(b.Shape[3])
	if !slices.ContainsFunc(b.Extents, func(e [2]int64) bool { return e != [2]int64{b.Shape[2], b.Shape[3]} }) {
		return torch.Tensor{}
	}
	mask := make([]float32, rows*height*width)
	for i, e := range b.Extents {
		for y := range int(e[0]) {
			row := mask[(i*height+y)*width:][:e[1]]
			for x := range row {
				row[x] = 1
			}
		}
	}
	return engine.Input(p, mask, b.Shape[0], b.Shape[2], b.Shape[3])
}
