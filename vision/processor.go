package vision

import (
	"errors"
	"fmt"
)

// ProcessorOptions says how pictures are prepared for a model. The fields are those of Hezar's
// image processor and of Hugging Face's preprocessor_config.json; a zero value leaves its step out.
type ProcessorOptions struct {
	Gray          bool    // one channel instead of three
	Mirror        bool    // flip left to right, before resizing
	Width, Height int     // size of the result, both or none; the aspect is not kept
	Filter        Filter  // for resizing; the zero value is Bicubic, Pillow's and Hezar's default
	Rescale       float64 // factor of the samples, such as 1/255.; zero means none
	// subtracted and divided by after rescaling, one for each channel or one for all; both or none
	Mean, Std []float64

	// Wrap8Bit repeats what Hezar does with Mean and Std when there is no Rescale: numpy keeps the
	// picture in uint8, so both are cut to whole numbers and the difference wraps round below zero.
	// Only for models that were trained that way.
	Wrap8Bit bool
}

// Processor prepares pictures: grey, mirror, resize, rescale, normalise, channels first, in this
// order. Its results equal those of Hezar 1.0's image processor to the last bit. It is safe for
// concurrent use.
type Processor struct {
	o ProcessorOptions
	n *Normalizer
}

// NewProcessor checks the options and prepares the tables.
func NewProcessor(o ProcessorOptions) (*Processor, error) {
	if (o.Width == 0) != (o.Height == 0) || o.Width < 0 || o.Height < 0 || int(o.Filter) >= len(filterNames) {
		return nil, fmt.Errorf("vision: processor of size %dx%d with filter %v: want both sides positive, or both "+
			"zero for no resizing, and a known filter", o.Width, o.Height, o.Filter)
	}
	if (len(o.Mean) == 0) != (len(o.Std) == 0) {
		return nil, fmt.Errorf("vision: processor with %d values of Mean and %d of Std: want both or none", len(o.Mean),
			len(o.Std))
	}
	channels := 3
	if o.Gray {
		channels = 1
	}
	if o.Wrap8Bit {
		if o.Rescale != 0 || len(o.Mean) == 0 {
			return nil, errors.New("vision: processor: Wrap8Bit wants Mean and Std, and no Rescale")
		}
		n, err := wrapped(channels, o.Mean, o.Std)
		return &Processor{o, n}, err
	}
	scale := o.Rescale
	if scale == 0 {
		scale = 1
	}
	n, err := NewNormalizer(channels, scale, o.Mean, o.Std)
	return &Processor{o, n}, err
}

// wrapped is numpy's (uint8 - uint8) / uint8.
func wrapped(channels int, mean, std []float64) (*Normalizer, error) {
	return newNormalizer(channels, mean, std, func(c int, m, s float64) (func(v int) float32, error) {
		if !(m >= 0 && m < 256 && s >= 1 && s < 256) {
			return nil, fmt.Errorf("vision: processor: Wrap8Bit with mean %v and std %v in channel %d: want a mean "+
				"of 0 to 255 and a std of 1 to 255", m, s, c)
		}
		return func(v int) float32 { return float32(float64(uint8(v)-uint8(m)) / float64(uint8(s))) }, nil
	})
}

// Shape returns the channels, height and width of what becomes of im.
func (p *Processor) Shape(im *Image) (channels, height, width int) {
	channels, height, width = 3, im.Height, im.Width
	if p.o.Gray {
		channels = 1
	}
	if p.o.Width > 0 {
		height, width = p.o.Height, p.o.Width
	}
	return channels, height, width
}

// Len returns the number of values that Process writes for im.
func (p *Processor) Len(im *Image) int {
	c, h, w := p.Shape(im)
	return c * h * w
}

// Process writes the prepared picture into dst, which the caller lends and which holds exactly Len
// values. im is not changed.
func (p *Processor) Process(dst []float32, im *Image) error {
	if n := p.Len(im); len(dst) != n {
		return fmt.Errorf("vision: process a %v picture into %d values: want %d", im, len(dst), n)
	}
	out := im.RGB()
	if p.o.Gray {
		out = im.Gray()
	}
	if p.o.Mirror {
		if out == im {
			out = im.Clone()
		}
		out.Mirror()
	}
	if p.o.Width > 0 {
		var err error
		if out, err = out.Resized(p.o.Width, p.o.Height, p.o.Filter); err != nil {
			return err
		}
	}
	return p.n.Normalize(dst, out)
}
