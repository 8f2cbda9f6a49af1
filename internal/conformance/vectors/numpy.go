package vectors

import (
	"errors"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// Hezar's image processor keeps a picture as a numpy array, and each step guesses its layout again.
// Package preprocessors does not reproduce these guesses, which are wrong for pictures of up to
// three rows, but recordings contain their results. Here tensors represent the arrays: libtorch
// computes like numpy.

var errPython = errors.New("such a picture makes Hezar fail")

// channelsFirst is find_channels_axis_side: a first dimension of up to three is taken for channels.
func channelsFirst(a torch.Tensor) bool { return a.Size(0) >= 1 && a.Size(0) <= 3 }

// transposed is numpy's transpose of three dimensions.
func transposed(a torch.Tensor, x, y, z int64) torch.Tensor {
	if a.Dim() != 3 {
		spec.Failf("%w: axes do not match an array of %d dimensions", errPython, a.Dim())
	}
	return a.Permute(x, y, z).Contiguous()
}

// planes are the channels of a Pillow image: one for L, two for LA, three for RGB, four for RGBA.
type planes []*vision.Image

// pillow is convert_image_type(array, "pillow").
func pillow(a torch.Tensor) planes {
	if channelsFirst(a) {
		a = transposed(a, 1, 2, 0)
	}
	if a.DType() != torch.Uint8 {
		if a.Dim() == 3 {
			spec.Failf("%w: Pillow has no image of %s with channels", errPython, a.DType())
		}
		return planes{cut(a)}
	}
	last := a.Size(-1)
	single := channelsFirst(a) && a.Size(0) == 1 || !channelsFirst(a) && last == 1
	switch {
	case single && a.Dim() == 2:
		spec.Failf("%w: two dimensions, one of length 1", errPython)
	case a.Dim() == 2:
		a = a.Unsqueeze(-1)
	case !single && (last < 2 || last > 4):
		spec.Failf("%w: Pillow has no image of %d channels", errPython, last)
	}
	var list planes
	for c := range a.Size(-1) {
		list = append(list, &vision.Image{Pix: torch.Values[uint8](a.Select(-1, c).Contiguous()),
			Width: int(a.Size(1)), Height: int(a.Size(0)), Channels: 1})
	}
	if single {
		list = list[len(list)-1:]
	}
	return list
}

// cut is convert("L") of a picture of floats. No other step is applied to one: those that would
// leave it as floats are refused before.
func cut(a torch.Tensor) *vision.Image {
	im := vision.NewImage(int(a.Size(1)), int(a.Size(0)), 1)
	for i, v := range torch.Values[float64](a.ToDType(torch.Float64)) {
		im.Pix[i] = uint8(max(0, min(v, 255)))
	}
	return im
}

// numpy is convert_image_type(image, "numpy").
func (p planes) numpy() torch.Tensor {
	var list []torch.Tensor
	for _, plane := range p {
		list = append(list, torch.From(plane.Pix, int64(plane.Height), int64(plane.Width)))
	}
	if len(p) == 1 {
		return torch.Stack(list, 0)
	}
	return torch.Stack(list, -1)
}

// gray is convert("L"), which drops the alpha channel.
func (p planes) gray() planes {
	if len(p) < 3 {
		return p[:1]
	}
	pixels := torch.Values[uint8](p[:3].numpy())
	return planes{(&vision.Image{Pix: pixels, Width: p[0].Width, Height: p[0].Height, Channels: 3}).Gray()}
}

// resized is Image.resize, which multiplies colours by alpha before resizing, and divides again
// afterwards.
func (p planes) resized(width, height int, f vision.Filter) planes {
	if p[0].Width == width && p[0].Height == height {
		return p
	}
	weighted := len(p)%2 == 0 && f != vision.Nearest
	if weighted {
		p.multiply(func(v, alpha int) int { v = v*alpha + 128; return (v>>8 + v) >> 8 })
	}
	var out planes
	for _, plane := range p {
		out = append(out, spec.Must(plane.Resized(width, height, f)))
	}
	if weighted {
		out.multiply(func(v, alpha int) int {
			if alpha == 0 || alpha == 255 {
				return v
			}
			return min(255, 255*v/alpha)
		})
	}
	return out
}

// multiply modifies the colours using the last channel, alpha.
func (p planes) multiply(by func(v, alpha int) int) {
	alpha := p[len(p)-1].Pix
	for _, plane := range p[:len(p)-1] {
		for i, v := range plane.Pix {
			plane.Pix[i] = uint8(by(int(v), int(alpha[i])))
		}
	}
}

// likeHezar is ImageProcessor.__call__ for one picture. written is the config as it was written, in
// which 1 and 1.0 differ.
func likeHezar(a torch.Tensor, c preprocessors.ImageProcessorConfig, written omegaconf.Map) torch.Tensor {
	if a.DType() != torch.Uint8 && a.Dim() == 2 && !c.GrayScale && (c.Mirror || c.Width > 0) {
		spec.Refusef("a picture of %s without channels that is mirrored or resized", a.DType())
	}
	if c.GrayScale {
		a = pillow(a).gray().numpy()
	}
	if c.Mirror {
		p := pillow(a)
		for _, plane := range p {
			plane.Mirror()
		}
		a = p.numpy()
	}
	if c.Width > 0 {
		var filter vision.Filter
		if c.Resample != nil {
			filter = spec.Must(vision.FilterByNumber(*c.Resample))
		}
		a = pillow(a).resized(c.Width, c.Height, filter).numpy()
	}
	if scale, _ := written.Get("rescale"); scale != nil {
		a = rescaled(a, scale)
	}
	mean, _ := written.Get("mean")
	std, _ := written.Get("std")
	if mean != nil && std != nil {
		a = normalized(a, c.Mean, c.Std)
	}
	if channelsFirst(a) {
		return a
	}
	return transposed(a, 2, 0, 1)
}

// rescaled is array * scale: bytes times an integer stay bytes.
func rescaled(a torch.Tensor, scale any) torch.Tensor {
	switch scale := scale.(type) {
	case int64:
		if a.DType() == torch.Uint8 && (scale < 0 || scale > 255) {
			spec.Failf("%w: %d is no uint8", errPython, scale)
		}
		return a.MulScalar(scale)
	case float64:
		if a.DType() == torch.Uint8 {
			a = a.ToDType(torch.Float64)
		}
		return a.MulScalar(scale)
	}
	spec.Failf("%w: rescale is %v", errPython, scale)
	return a
}

// normalized is normalize_image along the last axis, whatever that is: mean and std are converted
// to the array's type and broadcast against it. The difference of bytes is a byte; the division is
// in double precision.
func normalized(a torch.Tensor, mean, std []float64) torch.Tensor {
	bytes := a.DType() == torch.Uint8
	for _, list := range [][]float64{mean, std} {
		if n := int64(len(list)); a.Size(-1) != n && a.Size(-1) != 1 && n != 1 {
			spec.Failf("%w: %d numbers for an axis of %d", errPython, n, a.Size(-1))
		}
		for _, v := range list {
			if bytes && (v <= -1 || v >= 256) {
				spec.Refusef("a mean or std of %v where the picture is of bytes", v)
			}
		}
	}
	m, s := torch.From(mean).ToDType(a.DType()), torch.From(std).ToDType(a.DType())
	if !bytes {
		return a.Sub(m).Div(s)
	}
	return a.Sub(m).ToDType(torch.Float64).Div(s.ToDType(torch.Float64))
}
