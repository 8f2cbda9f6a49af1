package transforms

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/vision"
)

// Transform is a step in preparing an image.
type Transform interface {
	// Apply changes p. It draws random numbers from g only, and replaces p.Image instead of
	// changing it.
	Apply(p *Picture, g Generator) error
}

// Picture is an image in preparation: 8-bit samples until [ToTensor], numbers from then on.
//
// With Labels, the classes of its pixels, steps that move pixels change both alike, and those that
// change colors leave labels alone. A label of another size is that of the pixel at its center.
// This is what torchvision.transforms.v2 does with an image and a tv_tensors.Mask, but for
// resizing, where torchvision takes the pixel at the upper left instead, half a pixel away from the
// image.
type Picture struct {
	Labels *vision.LabelMap // of the size of Image until ToTensor; nil: none
	// FillLabel is the class of what [CenterCrop] adds around a smaller image.
	FillLabel uint16

	Image  *vision.Image // nil after ToTensor
	Pixels []float32     // all of the first channel by rows, then the second, ...; nil before ToTensor
	Shape  []int64       // channels, height and width of Pixels
}

// errNumbers is returned by steps that change 8-bit samples.
var errNumbers = errors.New("it changes images of 8-bit samples, and ToTensor has made numbers of this one: " +
	"put it before ToTensor")

// Compose runs steps one after another: torchvision.transforms.Compose. It is a step itself.
type Compose []Transform

// Run prepares an image, without changing im. g may be nil if no step draws random numbers.
func (c Compose) Run(im *vision.Image, g Generator) (Picture, error) {
	if im == nil || len(im.Pix) == 0 {
		return Picture{}, fmt.Errorf("transforms: the image is %v: want one of at least 1x1", im)
	}
	p := Picture{Image: im}
	if err := c.Apply(&p, g); err != nil {
		return Picture{}, fmt.Errorf("transforms: %w", err)
	}
	return p, nil
}

// RunLabeled is [Compose.Run] of an image and the classes of its pixels, which must have the same
// size. What a crop adds around the image gets the class fill. It does not change labels.
func (c Compose) RunLabeled(im *vision.Image, labels *vision.LabelMap, fill uint16, g Generator) (Picture, error) {
	if im == nil || labels == nil || len(im.Pix) == 0 || im.Width != labels.Width || im.Height != labels.Height {
		return Picture{}, fmt.Errorf("transforms: the image is %v and its labels %v: want both of the same size, of at "+
			"least 1x1", im, labels)
	}
	p := Picture{Image: im, Labels: labels, FillLabel: fill}
	if err := c.Apply(&p, g); err != nil {
		return Picture{}, fmt.Errorf("transforms: %w", err)
	}
	return p, nil
}

// Open reads an image file in color, as torchvision's ImageFolder does, and prepares it.
func (c Compose) Open(path string, g Generator) (Picture, error) {
	im, err := vision.Open(path, vision.DecodeOptions{})
	if err != nil {
		return Picture{}, err
	}
	p, err := c.Run(im.RGB(), g)
	if err != nil {
		return Picture{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Apply runs all steps.
func (c Compose) Apply(p *Picture, g Generator) error {
	for i, step := range c {
		if step == nil {
			return fmt.Errorf("step %d is nil; want a transform", i)
		}
		if err := step.Apply(p, g); err != nil {
			return fmt.Errorf("step %d, %T: %w", i, step, err)
		}
	}
	return nil
}
