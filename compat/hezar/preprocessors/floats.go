package preprocessors

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/vision"
)

// Floats is a picture of float32 values instead of bytes, laid out like a numpy array: rows from
// the top, with the channels of a pixel next to each other.
type Floats struct {
	Pix                     []float32
	Width, Height, Channels int // one or three channels
}

// floats prepares a picture of float32 values as Hezar does: in float32, skipping the steps of
// Pillow, which works on bytes. An exception is gray_scale for a picture with one channel, for
// which Pillow truncates the values to bytes.
func (p *ImageProcessor) floats(f *Floats) ([]float32, [3]int, error) {
	c, shape := p.Config, [3]int{f.Channels, f.Height, f.Width}
	switch {
	case f.Width < 1 || f.Height < 1 || f.Channels != 1 && f.Channels != 3 ||
		len(f.Pix) != f.Width*f.Height*f.Channels:
		return nil, shape, fmt.Errorf("preprocessors: a picture of %d numbers is %dx%d with %d channels: want at least "+
			"1x1, 1 or 3 channels and as many numbers", len(f.Pix), f.Width, f.Height, f.Channels)
	case c.GrayScale && f.Channels == 1:
		return p.bytes(f.bytes())
	case c.GrayScale || c.Mirror || c.Width > 0:
		return nil, shape, errors.New("preprocessors: gray_scale, mirror and size take pictures of bytes, and this is one " +
			"of float32: make a *vision.Image of it, or leave these steps out of the config")
	}
	out := make([]float32, len(f.Pix))
	scale, normalize := float32(1), len(c.Mean) > 0 && len(c.Std) > 0
	if c.Rescale != nil {
		scale = float32(*c.Rescale)
	}
	for _, list := range [][]float64{c.Mean, c.Std} {
		if n := len(list); normalize && n != 1 && n != f.Channels {
			return nil, shape, fmt.Errorf("preprocessors: mean and std have %d and %d numbers for %d channels: want "+
				"one for each channel, or one for all", len(c.Mean), len(c.Std), f.Channels)
		}
	}
	plane := f.Width * f.Height
	for i, v := range f.Pix {
		k := i % f.Channels
		v *= scale
		if normalize {
			v = (v - float32(c.Mean[k%len(c.Mean)])) / float32(c.Std[k%len(c.Std)])
		}
		out[k*plane+i/f.Channels] = v
	}
	return out, shape, nil
}

// bytes converts the values to bytes like f2l in Pillow's Convert.c.
func (f *Floats) bytes() *vision.Image {
	im := vision.NewImage(f.Width, f.Height, f.Channels)
	for i, v := range f.Pix {
		switch {
		case v >= 255:
			im.Pix[i] = 255
		case v > 0:
			im.Pix[i] = uint8(v)
		}
	}
	return im
}
