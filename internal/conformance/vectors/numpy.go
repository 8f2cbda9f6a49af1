package vectors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/vision"
)

// array is a picture as Hezar's image processor holds it: a numpy array, about whose layout each
// step guesses anew. Package preprocessors does not follow these guesses, which go wrong for
// pictures of up to three rows; a recording has to be followed.
type array struct {
	shape  []int     // two or three dimensions
	bytes  []uint8   // elements of type uint8
	floats []float64 // of type float64, instead
}

var errPython = errors.New("such a picture makes Hezar fail")

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// channelsFirst is find_channels_axis_side: a first dimension of up to three is taken for channels.
func (a array) channelsFirst() bool { return a.shape[0] >= 1 && a.shape[0] <= 3 }

// transposed is numpy's transpose of three dimensions.
func (a array) transposed(x, y, z int) (array, error) {
	if len(a.shape) != 3 {
		return a, fmt.Errorf("%w: axes do not match an array of %d dimensions", errPython, len(a.shape))
	}
	strides := []int{a.shape[1] * a.shape[2], a.shape[2], 1}
	out := array{shape: []int{a.shape[x], a.shape[y], a.shape[z]}}
	for i := range out.shape[0] {
		for j := range out.shape[1] {
			for k := range out.shape[2] {
				at := i*strides[x] + j*strides[y] + k*strides[z]
				if a.floats != nil {
					out.floats = append(out.floats, a.floats[at])
				} else {
					out.bytes = append(out.bytes, a.bytes[at])
				}
			}
		}
	}
	return out, nil
}

// planes are the channels of a Pillow image: one is L, two are LA, three RGB, four RGBA.
type planes []*vision.Image

// pillow is convert_image_type(array, "pillow").
func (a array) pillow() (planes, error) {
	if a.channelsFirst() {
		var err error
		if a, err = a.transposed(1, 2, 0); err != nil {
			return nil, err
		}
	}
	last := a.shape[len(a.shape)-1]
	channels, single := last, a.channelsFirst() && a.shape[0] == 1 || !a.channelsFirst() && last == 1
	switch {
	case single && len(a.shape) == 2:
		return nil, fmt.Errorf("%w: two dimensions, one of length 1", errPython)
	case len(a.shape) == 2:
		channels = 1
	case !single && (channels < 2 || channels > 4):
		return nil, fmt.Errorf("%w: Pillow has no image of %d channels", errPython, channels)
	}
	list := make(planes, channels)
	for c := range list {
		list[c] = vision.NewImage(a.shape[1], a.shape[0], 1)
		for i := range list[c].Pix {
			list[c].Pix[i] = a.bytes[i*channels+c]
		}
	}
	if single {
		list = list[channels-1:]
	}
	return list, nil
}

// numpy is convert_image_type(image, "numpy").
func (p planes) numpy() array {
	if len(p) == 1 {
		return array{shape: []int{1, p[0].Height, p[0].Width}, bytes: p[0].Pix}
	}
	a := array{shape: []int{p[0].Height, p[0].Width, len(p)}}
	for i := range p[0].Pix {
		for _, plane := range p {
			a.bytes = append(a.bytes, plane.Pix[i])
		}
	}
	return a
}

// gray is convert("L"), which leaves transparency out.
func (p planes) gray() planes {
	if len(p) < 3 {
		return p[:1]
	}
	return planes{(&vision.Image{Pix: p[:3].numpy().bytes, Width: p[0].Width, Height: p[0].Height, Channels: 3}).Gray()}
}

// resized is Image.resize, which multiplies colours by their transparency in between.
func (p planes) resized(width, height int, f vision.Filter) (planes, error) {
	if p[0].Width == width && p[0].Height == height {
		return p, nil
	}
	weighted := len(p)%2 == 0 && f != vision.Nearest
	if weighted {
		p.multiply(func(v, alpha int) int { v = v*alpha + 128; return (v>>8 + v) >> 8 })
	}
	out := make(planes, len(p))
	for c := range p {
		var err error
		if out[c], err = p[c].Resized(width, height, f); err != nil {
			return nil, err
		}
	}
	if weighted {
		out.multiply(func(v, alpha int) int {
			if alpha == 0 || alpha == 255 {
				return v
			}
			return min(255, 255*v/alpha)
		})
	}
	return out, nil
}

// multiply changes the colours by their transparency, the last channel.
func (p planes) multiply(by func(v, alpha int) int) {
	alpha := p[len(p)-1].Pix
	for _, plane := range p[:len(p)-1] {
		for i, v := range plane.Pix {
			plane.Pix[i] = uint8(by(int(v), int(alpha[i])))
		}
	}
}

// likeHezar is ImageProcessor.__call__ of one picture. The mapping is the config as it is written,
// in which 1 and 1.0 differ.
func likeHezar(a array, c preprocessors.ImageProcessorConfig, written omegaconf.Map) (array, error) {
	step := func(do func(p planes) (planes, error)) error {
		p, err := a.pillow()
		if err == nil {
			p, err = do(p)
		}
		if err == nil {
			a = p.numpy()
		}
		return err
	}
	var errs []error
	if c.GrayScale {
		errs = append(errs, step(func(p planes) (planes, error) { return p.gray(), nil }))
	}
	if c.Mirror {
		errs = append(errs, step(func(p planes) (planes, error) {
			for _, plane := range p {
				plane.Mirror()
			}
			return p, nil
		}))
	}
	if c.Width > 0 {
		var filter vision.Filter
		if c.Resample != nil {
			var err error
			filter, err = vision.FilterByNumber(*c.Resample)
			errs = append(errs, err)
		}
		errs = append(errs, step(func(p planes) (planes, error) { return p.resized(c.Width, c.Height, filter) }))
	}
	if err := errors.Join(errs...); err != nil {
		return a, err
	}
	var err error
	if scale, ok := written.Get("rescale"); ok && scale != nil {
		if a, err = a.rescaled(scale); err != nil {
			return a, err
		}
	}
	mean, _ := written.Get("mean")
	std, _ := written.Get("std")
	if mean != nil && std != nil {
		_, one := mean.([]any)
		_, each := std.([]any)
		if a, err = a.normalized(c.Mean, c.Std, !one, !each); err != nil {
			return a, err
		}
	}
	if a.channelsFirst() {
		return a, nil
	}
	return a.transposed(2, 0, 1)
}

// rescaled is array * scale: a whole number leaves bytes bytes.
func (a array) rescaled(scale any) (array, error) {
	out := array{shape: a.shape}
	switch scale := scale.(type) {
	case int64:
		if scale < 0 || scale > 255 {
			return a, fmt.Errorf("%w: %d is no uint8", errPython, scale)
		}
		for _, v := range a.bytes {
			out.bytes = append(out.bytes, v*uint8(scale))
		}
	case float64:
		for _, v := range a.bytes {
			out.floats = append(out.floats, float64(v)*scale)
		}
	default:
		return a, fmt.Errorf("%w: rescale is %v", errPython, scale)
	}
	return out, nil
}

// normalized is normalize_image along the last axis, whatever that holds: mean and std are made
// numbers of the array's type and stretched to it, or it to them.
func (a array) normalized(mean, std []float64, meanAlone, stdAlone bool) (array, error) {
	last := a.shape[len(a.shape)-1]
	if meanAlone {
		mean = slices.Repeat(mean, last)
	}
	if stdAlone {
		std = slices.Repeat(std, last)
	}
	if a.floats == nil {
		for _, v := range slices.Concat(mean, std) {
			if v <= -1 || v >= 256 {
				return a, spec.Unsupportedf("a mean or std of %v where the picture is of bytes", v)
			}
		}
	}
	a, err := a.broadcast(mean, func(v, m float64) float64 { return v - m },
		func(v, m uint8) float64 { return float64(v - m) })
	if err != nil {
		return a, err
	}
	if a.floats == nil { // the difference of bytes is one; it is divided in double precision
		for i, v := range std {
			std[i] = float64(uint8(v))
		}
	}
	divide := func(v, s float64) float64 { return v / s }
	return a.toFloats().broadcast(std, divide, nil)
}

func (a array) toFloats() array {
	if a.floats != nil {
		return a
	}
	out := array{shape: a.shape, floats: make([]float64, len(a.bytes))}
	for i, v := range a.bytes {
		out.floats[i] = float64(v)
	}
	return out
}

// broadcast combines the last axis with a list by numpy's rules.
func (a array) broadcast(list []float64, floats func(v, w float64) float64, bytes func(v, w uint8) float64) (array,
	error) {
	last := a.shape[len(a.shape)-1]
	if last != len(list) && last != 1 && len(list) != 1 {
		return a, fmt.Errorf("%w: %d numbers for an axis of %d", errPython, len(list), last)
	}
	width := max(last, len(list))
	out := array{shape: append(slices.Clone(a.shape[:len(a.shape)-1]), width)}
	for i := range elements(out.shape) {
		at, w := i, list[i%width%len(list)]
		if last == 1 {
			at = i / width
		}
		if a.floats != nil {
			out.floats = append(out.floats, floats(a.floats[at], w))
		} else {
			out.bytes = append(out.bytes, uint8(bytes(a.bytes[at], uint8(w))))
		}
	}
	return out, nil
}
