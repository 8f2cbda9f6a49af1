package transforms

import (
	"errors"
	"fmt"
)

// ImageNetMean and ImageNetStd are the values that torchvision's pretrained weights were trained
// with.
var (
	ImageNetMean = []float64{0.485, 0.456, 0.406}
	ImageNetStd  = []float64{0.229, 0.224, 0.225}
)

// ToTensor converts the samples to numbers from 0 to 1, channels first:
// torchvision.transforms.ToTensor.
type ToTensor struct{}

// Apply converts the samples.
func (ToTensor) Apply(p *Picture, _ Generator) error {
	im := p.Image
	if im == nil {
		return errors.New("ToTensor has made numbers of this image before; want one ToTensor")
	}
	plane := im.Width * im.Height
	p.Pixels = make([]float32, len(im.Pix))
	for c := range im.Channels {
		out := p.Pixels[c*plane:][:plane]
		for i := range out {
			out[i] = float32(im.Pix[i*im.Channels+c]) / 255
		}
	}
	p.Image, p.Shape = nil, []int64{int64(im.Channels), int64(im.Height), int64(im.Width)}
	return nil
}

// Normalize subtracts from each channel its mean and divides by its standard deviation:
// torchvision.transforms.Normalize.
type Normalize struct {
	Mean, Std []float64 // one for each channel, or one for all
}

// Apply changes the numbers.
func (n Normalize) Apply(p *Picture, _ Generator) error {
	if p.Image != nil {
		return errors.New("it changes numbers, and this is an image of 8-bit samples: put it behind ToTensor")
	}
	channels := int(p.Shape[0])
	for _, list := range [][]float64{n.Mean, n.Std} {
		if len(list) != 1 && len(list) != channels {
			return fmt.Errorf("there are %d values of Mean and %d of Std for %d channels: want one for each channel, "+
				"or "+
				"one for all", len(n.Mean), len(n.Std), channels)
		}
	}
	plane := len(p.Pixels) / channels
	for c := range channels {
		mean, std := float32(n.Mean[c%len(n.Mean)]), float32(n.Std[c%len(n.Std)])
		if std == 0 {
			return fmt.Errorf("its Std of channel %d is %v, which is zero in float32: want another number", c,
				n.Std[c%len(n.Std)])
		}
		pixels := p.Pixels[c*plane:][:plane]
		for i, v := range pixels {
			pixels[i] = (v - mean) / std
		}
	}
	return nil
}
