package functional

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// PadMode says how a border is filled.
type PadMode string

// The padding modes.
const (
	PadConstant  PadMode = "constant"  // one value
	PadReflect   PadMode = "reflect"   // the neighbours mirrored, without the border itself
	PadReplicate PadMode = "replicate" // the border repeated
	PadCircular  PadMode = "circular"  // the opposite side
)

// Pad adds pad[0] elements before and pad[1] after the last dimension, pad[2] and pad[3] around
// the one before it, and so on: torch.nn.functional.pad. value is for [PadConstant]; negative
// numbers crop.
func Pad(input torch.Tensor, pad []int64, mode PadMode, value float64) torch.Tensor {
	switch mode {
	case PadConstant:
		return call("aten::pad", input, pad, string(mode), value)
	case PadReflect, PadReplicate, PadCircular:
		if value != 0 {
			panic(torch.Errorf("functional.Pad", torch.ErrValue, "the mode %q takes no value, found %g", mode, value))
		}
		return call("aten::pad", input, pad, string(mode), nil)
	}
	panic(torch.Errorf("functional.Pad", torch.ErrValue, "the mode %q is not known; want constant, reflect, "+
		"replicate or circular",
		mode))
}

// InterpolateOptions are the keywords of torch.nn.functional.interpolate. Set either Size or
// Scale.
type InterpolateOptions struct {
	Size         []int64           // of the output, without batch and channels; a single number applies to all dimensions
	Scale        []float64         // the output's size divided by the input's; a single number applies to all dimensions
	Mode         InterpolationMode // empty means Nearest
	AlignCorners bool              // corner pixels keep their values; for the linear modes and Bicubic
	Recompute    bool              // use the ratio of the rounded sizes instead of Scale: recompute_scale_factor
	Antialias    bool              // average over what a pixel of a smaller output covers; Bilinear and Bicubic
}

// InterpolationMode names an algorithm of [Interpolate].
type InterpolationMode string

// The interpolation modes. Linear is for one dimension after the channels, Bilinear and Bicubic
// for two, Trilinear for three.
const (
	Nearest      InterpolationMode = "nearest"
	NearestExact InterpolationMode = "nearest-exact"
	Linear1d     InterpolationMode = "linear"
	Bilinear2d   InterpolationMode = "bilinear"
	Bicubic      InterpolationMode = "bicubic"
	Trilinear    InterpolationMode = "trilinear"
	Area         InterpolationMode = "area"
)

// Interpolate resizes [N, C, L], [N, C, H, W] or [N, C, D, H, W]: torch.nn.functional.interpolate.
func Interpolate(input torch.Tensor, o InterpolateOptions) torch.Tensor {
	const op = "Interpolate"
	shape := input.Shape()
	dims := len(shape) - 2
	mode := cmp.Or(o.Mode, Nearest)
	if dims < 1 || dims > 3 {
		panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want [N, C, L], [N, C, H, W] or [N, C, D, H, W], "+
			"found %v", shape))
	}
	if (o.Size == nil) == (o.Scale == nil) {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "want one of Size and Scale"))
	}
	if o.Recompute && o.Size != nil {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "Recompute has no meaning with Size"))
	}
	if o.Antialias && (dims != 2 || mode != Bilinear2d && mode != Bicubic) {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "Antialias is for bilinear and bicubic of [N, C, H, W], "+
			"found %s of %v", mode,
			shape))
	}
	var size, scale any // None, or lists
	if o.Size != nil {
		size = spread(op, "Size", o.Size, 1, dims)
	} else {
		if len(o.Scale) != 1 && len(o.Scale) != dims {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "Scale has %d numbers; want 1 or %d", len(o.Scale),
				dims))
		}
		factors, sizes := make([]float64, dims), make([]int64, dims)
		for i := range factors {
			factors[i] = o.Scale[min(i, len(o.Scale)-1)]
			sizes[i] = int64(float64(shape[i+2]) * factors[i])
		}
		scale = factors
		if o.Recompute || mode == Area {
			size, scale = sizes, nil
		}
	}
	switch {
	case mode == Nearest, mode == NearestExact, mode == Area:
		if o.AlignCorners {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "AlignCorners is for the linear modes and bicubic, "+
				"found %s", mode))
		}
		switch mode {
		case Nearest:
			return call(fmt.Sprintf("aten::upsample_nearest%dd.vec", dims), input, size, scale)
		case NearestExact:
			return call(fmt.Sprintf("aten::_upsample_nearest_exact%dd.vec", dims), input, size, scale)
		}
		return call(fmt.Sprintf("aten::adaptive_avg_pool%dd", dims), input, size)
	case mode == Linear1d && dims == 1:
		return call("aten::upsample_linear1d.vec", input, size, o.AlignCorners, scale)
	case mode == Bilinear2d && dims == 2 && o.Antialias:
		return call("aten::_upsample_bilinear2d_aa.vec", input, size, o.AlignCorners, scale)
	case mode == Bilinear2d && dims == 2:
		return call("aten::upsample_bilinear2d.vec", input, size, o.AlignCorners, scale)
	case mode == Bicubic && dims == 2 && o.Antialias:
		return call("aten::_upsample_bicubic2d_aa.vec", input, size, o.AlignCorners, scale)
	case mode == Bicubic && dims == 2:
		return call("aten::upsample_bicubic2d.vec", input, size, o.AlignCorners, scale)
	case mode == Trilinear && dims == 3:
		return call("aten::upsample_trilinear3d.vec", input, size, o.AlignCorners, scale)
	}
	panic(torch.Errorf("functional."+op, torch.ErrValue, "the mode %q is not known for %v; want nearest, "+
		"nearest-exact, area, linear (3 "+
		"dimensions), bilinear or bicubic (4), trilinear (5)", mode, shape))
}

// PixelShuffle rearranges channels into pixels: [..., C*r*r, H, W] becomes [..., C, H*r, W*r]:
// torch.nn.functional.pixel_shuffle.
func PixelShuffle(input torch.Tensor, r int64) torch.Tensor {
	return call("aten::pixel_shuffle", input, r)
}

// PixelUnshuffle reverses [PixelShuffle]: torch.nn.functional.pixel_unshuffle.
func PixelUnshuffle(input torch.Tensor, r int64) torch.Tensor {
	return call("aten::pixel_unshuffle", input, r)
}

// ChannelShuffle mixes the channels of the given number of groups:
// torch.nn.functional.channel_shuffle.
func ChannelShuffle(input torch.Tensor, groups int64) torch.Tensor {
	return call("aten::channel_shuffle", input, groups)
}

// GridSampleOptions are the keywords of torch.nn.functional.grid_sample. The zero value means
// PyTorch's defaults.
type GridSampleOptions struct {
	Mode         string // "bilinear", "nearest" or "bicubic"; empty means "bilinear"
	PaddingMode  string // "zeros", "border" or "reflection" outside of the image; empty means "zeros"
	AlignCorners bool   // -1 and 1 are the centres of corner pixels instead of their edges
}

// GridSample samples input, [N, C, H, W] or [N, C, D, H, W], at the positions in grid, [N, H', W',
// 2] or [N, D', H', W', 3], with coordinates in [-1, 1]: torch.nn.functional.grid_sample.
func GridSample(input, grid torch.Tensor, o GridSampleOptions) torch.Tensor {
	mode, ok := map[string]int64{"": 0, "bilinear": 0, "nearest": 1, "bicubic": 2}[o.Mode]
	if !ok {
		panic(torch.Errorf("functional.GridSample", torch.ErrValue, "the mode %q is not known; want bilinear, "+
			"nearest or bicubic",
			o.Mode))
	}
	padding, ok := map[string]int64{"": 0, "zeros": 0, "border": 1, "reflection": 2}[o.PaddingMode]
	if !ok {
		panic(torch.Errorf("functional.GridSample", torch.ErrValue,
			"the padding mode %q is not known; want zeros, border or reflection", o.PaddingMode))
	}
	return call("aten::grid_sampler", input, grid, mode, padding, o.AlignCorners)
}

// AffineGrid makes a grid for [GridSample] from affine matrices theta, [N, 2, 3] or [N, 3, 4], for
// an output of the given shape: torch.nn.functional.affine_grid.
func AffineGrid(theta torch.Tensor, shape []int64, alignCorners bool) torch.Tensor {
	return call("aten::affine_grid_generator", theta, shape, alignCorners)
}
