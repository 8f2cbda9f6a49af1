package functional

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/nn/internal/dims"
	"github.com/gotrainer/gotrainer/torch"
)

// ConvOptions are the keywords of the convolutions. The zero value means PyTorch's defaults; one
// number applies to all dimensions.
type ConvOptions struct {
	Stride   []int64 // nil means 1
	Padding  []int64 // zeros on both sides; nil means 0
	Same     bool    // pad so that the output has the size of the input, PyTorch's padding="same"; the stride must be 1
	Dilation []int64 // nil means 1
	Groups   int64   // zero means 1
}

// Conv1d convolves input, [N, C, L] or [C, L], with weight, [out, C/groups, k]:
// torch.nn.functional.conv1d. bias may be undefined.
func Conv1d(input, weight, bias torch.Tensor, o ConvOptions) torch.Tensor {
	return conv("Conv1d", 1, input, weight, bias, o)
}

// Conv2d convolves input, [N, C, H, W] or [C, H, W], with weight, [out, C/groups, kh, kw]:
// torch.nn.functional.conv2d.
func Conv2d(input, weight, bias torch.Tensor, o ConvOptions) torch.Tensor {
	return conv("Conv2d", 2, input, weight, bias, o)
}

// Conv3d convolves input, [N, C, D, H, W] or [C, D, H, W], with weight, [out, C/groups, kd, kh,
// kw]: torch.nn.functional.conv3d.
func Conv3d(input, weight, bias torch.Tensor, o ConvOptions) torch.Tensor {
	return conv("Conv3d", 3, input, weight, bias, o)
}

func conv(op string, dims int, input, weight, bias torch.Tensor, o ConvOptions) torch.Tensor {
	c := torch.ConvOptions{Stride: spread(op, "Stride", o.Stride, 1, dims), Dilation: spread(op, "Dilation", o.Dilation,
		1, dims), Groups: cmp.Or(o.Groups, 1)}
	if o.Same {
		if o.Padding != nil {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "Same and Padding %v are both set; want one",
				o.Padding))
		}
		return call(fmt.Sprintf("aten::conv%dd.padding", dims), input, weight, bias, c.Stride, "same", c.Dilation,
			c.Groups)
	}
	c.Padding = spread(op, "Padding", o.Padding, 0, dims)
	switch dims {
	case 1:
		return input.Conv1d(weight, bias, c)
	case 2:
		return input.Conv2d(weight, bias, c)
	}
	return call("aten::conv3d", input, weight, bias, c.Stride, c.Padding, c.Dilation, c.Groups)
}

// ConvTransposeOptions are the keywords of the transposed convolutions. The zero value means
// PyTorch's defaults; a single number applies to all dimensions.
type ConvTransposeOptions struct {
	Stride        []int64 // nil means 1
	Padding       []int64 // dilation*(kernel-1) - Padding zeros are added on both sides of the input; nil means 0
	OutputPadding []int64 // added to one side of the output's size; nil means 0
	Groups        int64   // zero means 1
	Dilation      []int64 // nil means 1
}

// ConvTranspose1d is the gradient of [Conv1d] with respect to its input; weight is [C, out/groups,
// k]: torch.nn.functional.conv_transpose1d.
func ConvTranspose1d(input, weight, bias torch.Tensor, o ConvTransposeOptions) torch.Tensor {
	return convTranspose("ConvTranspose1d", "aten::conv_transpose1d", 1, input, weight, bias, o)
}

// ConvTranspose2d is the gradient of [Conv2d] with respect to its input; weight is [C, out/groups,
// kh, kw]: torch.nn.functional.conv_transpose2d.
func ConvTranspose2d(input, weight, bias torch.Tensor, o ConvTransposeOptions) torch.Tensor {
	return convTranspose("ConvTranspose2d", "aten::conv_transpose2d.input", 2, input, weight, bias, o)
}

// ConvTranspose3d is the gradient of [Conv3d] with respect to its input; weight is [C, out/groups,
// kd, kh, kw]: torch.nn.functional.conv_transpose3d.
func ConvTranspose3d(input, weight, bias torch.Tensor, o ConvTransposeOptions) torch.Tensor {
	return convTranspose("ConvTranspose3d", "aten::conv_transpose3d.input", 3, input, weight, bias, o)
}

func convTranspose(op, aten string, dims int, input, weight, bias torch.Tensor, o ConvTransposeOptions) torch.Tensor {
	return call(aten, input, weight, bias, spread(op, "Stride", o.Stride, 1, dims), spread(op, "Padding", o.Padding, 0,
		dims),
		spread(op, "OutputPadding", o.OutputPadding, 0, dims), cmp.Or(o.Groups, 1), spread(op, "Dilation", o.Dilation,
			1,
			dims))
}

// Bilinear computes x1ᵀ·weight[k]·x2 + bias[k] for every output k; weight is [out, in1, in2]:
// torch.nn.functional.bilinear.
func Bilinear(input1, input2, weight, bias torch.Tensor) torch.Tensor {
	return call("aten::bilinear", input1, input2, weight, bias)
}

// FoldOptions are the keywords of [Unfold] and [Fold]. The zero value means PyTorch's defaults; one
// number applies to both dimensions.
type FoldOptions struct {
	Dilation []int64 // nil means 1
	Padding  []int64 // nil means 0
	Stride   []int64 // nil means 1
}

// Unfold extracts the windows of a convolution from [N, C, H, W] as columns, [N, C*kh*kw,
// windows]: torch.nn.functional.unfold.
func Unfold(input torch.Tensor, kernel []int64, o FoldOptions) torch.Tensor {
	const op = "Unfold"
	return call("aten::im2col", input, window(op, kernel, 2), spread(op, "Dilation", o.Dilation, 1, 2),
		spread(op, "Padding", o.Padding, 0, 2), spread(op, "Stride", o.Stride, 1, 2))
}

// Fold adds up the columns of [Unfold] to [N, C, H, W], where size is H and W:
// torch.nn.functional.fold.
func Fold(input torch.Tensor, size, kernel []int64, o FoldOptions) torch.Tensor {
	const op = "Fold"
	return call("aten::col2im", input, dims.Required("functional."+op, "the output's size", size, 2),
		window(op, kernel, 2),
		spread(op, "Dilation", o.Dilation, 1, 2), spread(op, "Padding", o.Padding, 0, 2), spread(op, "Stride", o.Stride,
			1, 2))
}
