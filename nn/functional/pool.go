package functional

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn/internal/dims"
	"github.com/gotrainer/gotrainer/torch"
)

// MaxPoolOptions are the keywords of the max-pooling functions. The zero value means PyTorch's
// defaults; a single number applies to all dimensions.
type MaxPoolOptions struct {
	Stride   []int64 // nil means the kernel's size
	Padding  []int64 // nil means 0
	Dilation []int64 // nil means 1
	CeilMode bool    // the last window may extend beyond the border
}

// MaxPool1d takes the maximum over windows of [N, C, L]: torch.nn.functional.max_pool1d.
func MaxPool1d(input torch.Tensor, kernel []int64, o MaxPoolOptions) torch.Tensor {
	return call("aten::max_pool1d", o.args("MaxPool1d", input, kernel, 1)...)
}

// MaxPool2d takes the maximum over windows of [N, C, H, W]: torch.nn.functional.max_pool2d.
func MaxPool2d(input torch.Tensor, kernel []int64, o MaxPoolOptions) torch.Tensor {
	return call("aten::max_pool2d", o.args("MaxPool2d", input, kernel, 2)...)
}

// MaxPool3d takes the maximum over windows of [N, C, D, H, W]: torch.nn.functional.max_pool3d.
func MaxPool3d(input torch.Tensor, kernel []int64, o MaxPoolOptions) torch.Tensor {
	return call("aten::max_pool3d", o.args("MaxPool3d", input, kernel, 3)...)
}

// MaxPool1dWithIndices is [MaxPool1d] that also returns the indices of the maxima, for
// [MaxUnpool1d].
func MaxPool1dWithIndices(input torch.Tensor, kernel []int64, o MaxPoolOptions) (values, indices torch.Tensor) {
	return call2("aten::max_pool1d_with_indices", o.args("MaxPool1dWithIndices", input, kernel, 1)...)
}

// MaxPool2dWithIndices is [MaxPool2d] that also returns the indices of the maxima, for
// [MaxUnpool2d].
func MaxPool2dWithIndices(input torch.Tensor, kernel []int64, o MaxPoolOptions) (values, indices torch.Tensor) {
	return call2("aten::max_pool2d_with_indices", o.args("MaxPool2dWithIndices", input, kernel, 2)...)
}

// MaxPool3dWithIndices is [MaxPool3d] that also returns the indices of the maxima, for
// [MaxUnpool3d].
func MaxPool3dWithIndices(input torch.Tensor, kernel []int64, o MaxPoolOptions) (values, indices torch.Tensor) {
	return call2("aten::max_pool3d_with_indices", o.args("MaxPool3dWithIndices", input, kernel, 3)...)
}

func (o MaxPoolOptions) args(op string, input torch.Tensor, kernel []int64, dims int) []any {
	kernel, stride, padding := windows(op, kernel, o.Stride, o.Padding, dims)
	return []any{input, kernel, stride, padding, spread(op, "Dilation", o.Dilation, 1, dims), o.CeilMode}
}

// windows returns kernel sizes, strides and paddings for all n dimensions. By default, the stride
// is the size of the kernel, so that windows do not overlap.
func windows(op string, kernel, stride, padding []int64, n int) (k, s, p []int64) {
	k = window(op, kernel, n)
	if len(stride) == 0 {
		stride = k
	}
	return k, spread(op, "Stride", stride, 1, n), spread(op, "Padding", padding, 0, n)
}

// AvgPoolOptions are the keywords of the mean-pooling functions. The zero value means PyTorch's
// defaults; a single number applies to all dimensions.
type AvgPoolOptions struct {
	Stride          []int64 // nil means the kernel's size
	Padding         []int64 // nil means 0
	CeilMode        bool    // the last window may extend beyond the border
	ExcludePad      bool    // exclude padding from the mean: count_include_pad=False
	DivisorOverride int64   // divides the sum of a window, in 2 and 3 dimensions; zero means the number of its elements
}

// AvgPool1d takes the mean over windows of [N, C, L]: torch.nn.functional.avg_pool1d.
func AvgPool1d(input torch.Tensor, kernel []int64, o AvgPoolOptions) torch.Tensor {
	if o.DivisorOverride != 0 {
		panic(torch.Errorf("functional.AvgPool1d", torch.ErrValue,
			"DivisorOverride is for 2 and 3 dimensions, found %d",
			o.DivisorOverride))
	}
	return call("aten::avg_pool1d", o.args("AvgPool1d", input, kernel, 1)[:6]...)
}

// AvgPool2d takes the mean over windows of [N, C, H, W]: torch.nn.functional.avg_pool2d.
func AvgPool2d(input torch.Tensor, kernel []int64, o AvgPoolOptions) torch.Tensor {
	return call("aten::avg_pool2d", o.args("AvgPool2d", input, kernel, 2)...)
}

// AvgPool3d takes the mean over windows of [N, C, D, H, W]: torch.nn.functional.avg_pool3d.
func AvgPool3d(input torch.Tensor, kernel []int64, o AvgPoolOptions) torch.Tensor {
	return call("aten::avg_pool3d", o.args("AvgPool3d", input, kernel, 3)...)
}

func (o AvgPoolOptions) args(op string, input torch.Tensor, kernel []int64, dims int) []any {
	kernel, stride, padding := windows(op, kernel, o.Stride, o.Padding, dims)
	return []any{input, kernel, stride, padding, o.CeilMode, !o.ExcludePad, optionalInt(o.DivisorOverride)}
}

// AdaptiveAvgPool1d takes the mean over windows so that the output has the given size; -1 keeps
// the size of the input: torch.nn.functional.adaptive_avg_pool1d.
func AdaptiveAvgPool1d(input torch.Tensor, size []int64) torch.Tensor {
	return call("aten::adaptive_avg_pool1d", input, adaptive("AdaptiveAvgPool1d", input, size, 1))
}

// AdaptiveAvgPool2d is [AdaptiveAvgPool1d] of images: torch.nn.functional.adaptive_avg_pool2d.
func AdaptiveAvgPool2d(input torch.Tensor, size []int64) torch.Tensor {
	return input.AdaptiveAvgPool2d(adaptive("AdaptiveAvgPool2d", input, size, 2))
}

// AdaptiveAvgPool3d is [AdaptiveAvgPool1d] of volumes: torch.nn.functional.adaptive_avg_pool3d.
func AdaptiveAvgPool3d(input torch.Tensor, size []int64) torch.Tensor {
	return call("aten::adaptive_avg_pool3d", input, adaptive("AdaptiveAvgPool3d", input, size, 3))
}

// AdaptiveMaxPool1d takes the maximum over windows so that the output has the given size, and also
// returns the indices of the maxima; -1 keeps the size of the input:
// torch.nn.functional.adaptive_max_pool1d.
func AdaptiveMaxPool1d(input torch.Tensor, size []int64) (values, indices torch.Tensor) {
	return call2("aten::adaptive_max_pool1d", input, adaptive("AdaptiveMaxPool1d", input, size, 1))
}

// AdaptiveMaxPool2d is [AdaptiveMaxPool1d] of images: torch.nn.functional.adaptive_max_pool2d.
func AdaptiveMaxPool2d(input torch.Tensor, size []int64) (values, indices torch.Tensor) {
	return call2("aten::adaptive_max_pool2d", input, adaptive("AdaptiveMaxPool2d", input, size, 2))
}

// AdaptiveMaxPool3d is [AdaptiveMaxPool1d] of volumes: torch.nn.functional.adaptive_max_pool3d.
func AdaptiveMaxPool3d(input torch.Tensor, size []int64) (values, indices torch.Tensor) {
	return call2("aten::adaptive_max_pool3d", input, adaptive("AdaptiveMaxPool3d", input, size, 3))
}

func adaptive(op string, input torch.Tensor, size []int64, n int) []int64 {
	size = dims.Required("functional."+op, "the output's size", size, n)
	shape := spatial(op, input, n)
	for i := range size {
		if size[i] == -1 {
			size[i] = shape[i]
		}
	}
	return size
}

// spatial returns the sizes of the dimensions after the channels.
func spatial(op string, input torch.Tensor, dims int) []int64 {
	shape := input.Shape()
	if len(shape) != dims+1 && len(shape) != dims+2 {
		panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want %d dimensions, or %d with a batch, found %v",
			dims+1, dims+2, shape))
	}
	return shape[len(shape)-dims:]
}

// LPPool1d takes the p-norm over windows of [N, C, L]; a nil stride means the kernel's size:
// torch.nn.functional.lp_pool1d.
func LPPool1d(input torch.Tensor, p float64, kernel, stride []int64, ceil bool) torch.Tensor {
	return lpPool("LPPool1d", AvgPool1d, 1, input, p, kernel, stride, ceil)
}

// LPPool2d is [LPPool1d] of images: torch.nn.functional.lp_pool2d.
func LPPool2d(input torch.Tensor, p float64, kernel, stride []int64, ceil bool) torch.Tensor {
	return lpPool("LPPool2d", AvgPool2d, 2, input, p, kernel, stride, ceil)
}

// LPPool3d is [LPPool1d] of volumes: torch.nn.functional.lp_pool3d.
func LPPool3d(input torch.Tensor, p float64, kernel, stride []int64, ceil bool) torch.Tensor {
	return lpPool("LPPool3d", AvgPool3d, 3, input, p, kernel, stride, ceil)
}

func lpPool(op string, mean func(torch.Tensor, []int64, AvgPoolOptions) torch.Tensor, dims int, input torch.Tensor,
	p float64, kernel, stride []int64, ceil bool) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		if p == 0 {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "the norm's p must not be 0"))
		}
		kernel = window(op, kernel, dims)
		out := mean(input.PowScalar(p), kernel, AvgPoolOptions{Stride: stride, CeilMode: ceil})
		count := int64(1)
		for _, k := range kernel {
			count *= k
		}
		return out.Sign().Mul(out.Abs().ReLU()).MulScalar(count).PowScalar(1 / p)
	})
}

// MaxUnpoolOptions are the keywords of the unpooling functions. The zero value means PyTorch's
// defaults.
type MaxUnpoolOptions struct {
	Stride  []int64 // nil means the kernel's size
	Padding []int64 // nil means 0
	// size of the output, without batch and channels: pooling maps several sizes to one; nil means
	// the smallest size that is divided without a remainder
	Size []int64
}

// MaxUnpool1d puts the maxima found by [MaxPool1dWithIndices] back in their places, and zeros
// elsewhere: torch.nn.functional.max_unpool1d.
func MaxUnpool1d(input, indices torch.Tensor, kernel []int64, o MaxUnpoolOptions) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		size, _, _ := o.resolve("MaxUnpool1d", input, kernel, 1)
		return call("aten::max_unpool2d", input.Unsqueeze(-1), indices.Unsqueeze(-1),
			[]int64{size[0], 1}).SqueezeDim(-1)
	})
}

// MaxUnpool2d is [MaxUnpool1d] of images: torch.nn.functional.max_unpool2d.
func MaxUnpool2d(input, indices torch.Tensor, kernel []int64, o MaxUnpoolOptions) torch.Tensor {
	size, _, _ := o.resolve("MaxUnpool2d", input, kernel, 2)
	return call("aten::max_unpool2d", input, indices, size)
}

// MaxUnpool3d is [MaxUnpool1d] of volumes: torch.nn.functional.max_unpool3d.
func MaxUnpool3d(input, indices torch.Tensor, kernel []int64, o MaxUnpoolOptions) torch.Tensor {
	size, stride, padding := o.resolve("MaxUnpool3d", input, kernel, 3)
	return call("aten::max_unpool3d", input, indices, size, stride, padding)
}

func (o MaxUnpoolOptions) resolve(op string, input torch.Tensor, kernel []int64, dims int) (size, stride,
	padding []int64) {
	kernel, stride, padding = windows(op, kernel, o.Stride, o.Padding, dims)
	for i, in := range spatial(op, input, dims) {
		size = append(size, (in-1)*stride[i]+kernel[i]-2*padding[i])
	}
	if o.Size == nil {
		return size, stride, padding
	}
	if len(o.Size) != dims {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "Size has %d numbers; want %d", len(o.Size), dims))
	}
	for i, want := range o.Size {
		if low, high := size[i]-stride[i], size[i]+stride[i]; want <= low || want >= high {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "Size is %v, but dimension %d must be between %d "+
				"and %d", o.Size, i, low,
				high))
		}
	}
	return o.Size, stride, padding
}

// FractionalMaxPoolOptions say how large the output of [FractionalMaxPool2d] is. Set either Size
// or Ratio.
type FractionalMaxPoolOptions struct {
	Size  []int64   // of the output
	Ratio []float64 // of the output's size to the input's, between 0 and 1; a single number applies to all dimensions
	// places the windows, [N, C, dimensions] in [0, 1); undefined: drawn from the default generator
	Samples torch.Tensor
}

// FractionalMaxPool2d takes the maximum over windows of [N, C, H, W] at random places, after
// Graham (2015), and also returns the indices of the maxima:
// torch.nn.functional.fractional_max_pool2d.
func FractionalMaxPool2d(input torch.Tensor, kernel []int64, o FractionalMaxPoolOptions) (values,
	indices torch.Tensor) {
	return fractional("FractionalMaxPool2d", 2, input, kernel, o)
}

// FractionalMaxPool3d is [FractionalMaxPool2d] of volumes:
// torch.nn.functional.fractional_max_pool3d.
func FractionalMaxPool3d(input torch.Tensor, kernel []int64, o FractionalMaxPoolOptions) (values,
	indices torch.Tensor) {
	return fractional("FractionalMaxPool3d", 3, input, kernel, o)
}

func fractional(op string, dims int, input torch.Tensor, kernel []int64, o FractionalMaxPoolOptions) (values,
	indices torch.Tensor) {
	if (o.Size == nil) == (o.Ratio == nil) {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "want one of Size and Ratio"))
	}
	shape := spatial(op, input, dims)
	size := o.Size
	if o.Ratio != nil {
		if len(o.Ratio) != 1 && len(o.Ratio) != dims {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "Ratio has %d numbers; want 1 or %d", len(o.Ratio),
				dims))
		}
		for i, in := range shape {
			r := o.Ratio[min(i, len(o.Ratio)-1)]
			if !(r > 0 && r < 1) {
				panic(torch.Errorf("functional."+op, torch.ErrValue, "Ratio must be between 0 and 1, found %v",
					o.Ratio))
			}
			size = append(size, int64(float64(in)*r))
		}
	}
	samples := o.Samples
	if !samples.Defined() {
		batch, channels := int64(1), input.Size(int64(-dims-1))
		if input.Dim() == dims+2 {
			batch = input.Size(0)
		}
		samples = torch.TensorOptions{DType: input.DType(), Device: input.Device()}.Rand(batch, channels, int64(dims))
		defer samples.Free()
	}
	return call2(fmt.Sprintf("aten::fractional_max_pool%dd", dims), input, window(op, kernel, dims),
		spread(op, "Size", size, 1, dims), samples)
}
