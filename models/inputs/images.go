package inputs

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// ImageLimits says which images a model takes.
type ImageLimits struct {
	Channels, Height, Width int64
	// AnySize allows other heights and widths; the images of a batch must have the same size.
	AnySize bool
}

// Image is an image as numbers, prepared for a model.
type Image struct {
	Pixels []float32 // the first channel row by row, then the second, ...
	Shape  []int64   // channels, height and width
}

// Images is some images of one size.
type Images struct {
	Pixels []float32
	Shape  []int64 // rows, channels, height and width
}

// Collate joins images to a batch and refuses what a model with these limits cannot take. Errors
// begin with the name of the task's package. memory returns a slice of n numbers for the pixels.
func (l ImageLimits) Collate(pkg string, images []Image, memory func(n int) []float32) (b Images, err error) {
	for i, im := range images {
		reason := l.Fault(im)
		if first := images[0].Shape; reason == "" && !slices.Equal(im.Shape, first) {
			reason = fmt.Sprintf("Shape is %v, and %v of the first picture; those of a batch have one size", im.Shape, first)
		}
		if reason != "" {
			return b, &SampleError{pkg, i, reason}
		}
	}
	size := len(images[0].Pixels)
	b = Images{memory(len(images) * size), append([]int64{int64(len(images))}, images[0].Shape...)}
	for i, im := range images {
		copy(b.Pixels[i*size:], im.Pixels)
	}
	return b, nil
}

// Fault says why a model of these limits cannot take an image; empty: it can.
func (l ImageLimits) Fault(im Image) string {
	wanted := []int64{l.Channels, l.Height, l.Width}
	values := 1
	for _, n := range im.Shape {
		values *= int(n)
	}
	switch {
	case !l.AnySize && !slices.Equal(im.Shape, wanted):
		return fmt.Sprintf("Shape is %v; the model takes pictures of %v", im.Shape, wanted)
	case len(im.Shape) != 3 || im.Shape[0] != l.Channels || im.Shape[1] < 1 || im.Shape[2] < 1:
		return fmt.Sprintf("Shape is %v; the model takes [%d height width]", im.Shape, l.Channels)
	case len(im.Pixels) != values:
		return fmt.Sprintf("Pixels has %d values; Shape, %v, says %d", len(im.Pixels), im.Shape, values)
	}
	return ""
}

// To copies the pixels to the device of a pass, [B, channels, height, width].
func (b Images) To(p engine.ForwardPass) torch.Tensor { return engine.Input(p, b.Pixels, b.Shape...) }
