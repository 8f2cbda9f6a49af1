package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// ConvTransposeOptions configures [NewConvTranspose1d], [NewConvTranspose2d] and
// [NewConvTranspose3d]. Nil and the zero value mean PyTorch's defaults.
type ConvTransposeOptions struct {
	Stride        Dims                // nil means 1
	Padding       Dims                // the input gets dilation*(kernel-1) - Padding zeros on both sides; nil means 0
	OutputPadding Dims                // added to one side of the output's size; nil means 0
	Groups        int64               // zero means 1
	NoBias        bool                // omit the bias
	Dilation      Dims                // nil means 1
	Factory       torch.TensorOptions // dtype, device and generator of the parameters
}

// ConvTranspose is the common part of [ConvTranspose1d], [ConvTranspose2d] and [ConvTranspose3d].
type ConvTranspose struct {
	Weight torch.Tensor `param:"weight"` // [in, out/groups, kernel...]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	Options functional.ConvTransposeOptions

	traced
}

func newConvTranspose(op string, dims int, in, out int64, kernel Dims, o ConvTransposeOptions) ConvTranspose {
	kernel, options := planConvTranspose(op, dims, in, out, kernel, o)
	c := ConvTranspose{Options: options}
	c.Weight, c.Bias = convWeights(o.Factory, o.NoBias, out, append([]int64{in, out / options.Groups}, kernel...))
	return c
}

// planConvTranspose does what newConvTranspose does, except creating the weights.
func planConvTranspose(op string, dims int, in, out int64, kernel Dims, o ConvTransposeOptions) (all Dims,
	call functional.ConvTransposeOptions) {
	groups := cmp.Or(o.Groups, 1)
	return checkConv(op, dims, in, out, groups, kernel), functional.ConvTransposeOptions{
		Stride:        spread(op, "Stride", o.Stride, 1, dims),
		Padding:       spread(op, "Padding", o.Padding, 0, dims),
		OutputPadding: spread(op, "OutputPadding", o.OutputPadding, 0, dims),
		Dilation:      spread(op, "Dilation", o.Dilation, 1, dims),
		Groups:        groups,
	}
}

// withSize returns the options with the OutputPadding that gives the output the wanted size.
func (c *ConvTranspose) withSize(op string, x torch.Tensor, size Dims) functional.ConvTransposeOptions {
	o := c.Options
	dims := len(o.Stride)
	shape, kernel := x.Shape(), c.Weight.Shape()[2:]
	if len(shape) < dims+1 {
		panic(torch.Errorf("nn."+op, torch.ErrInvalid, "want %d dimensions, or %d with a batch, found %v", dims+1,
			dims+2, shape))
	}
	if len(size) != dims {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "the output's size has %d numbers; want %d", len(size), dims))
	}
	o.OutputPadding = make(Dims, dims)
	for i, in := range shape[len(shape)-dims:] {
		least := (in-1)*o.Stride[i] - 2*o.Padding[i] + o.Dilation[i]*(kernel[i]-1) + 1
		if size[i] < least || size[i] >= least+o.Stride[i] {
			panic(torch.Errorf("nn."+op, torch.ErrValue, "dimension %d of the output can have the sizes %d to %d, "+
				"found %v", i,
				least, least+o.Stride[i]-1, size))
		}
		o.OutputPadding[i] = size[i] - least
	}
	return o
}

// ConvTranspose1d is the gradient of a [Conv1d] with respect to its input, as a layer:
// torch.nn.ConvTranspose1d.
type ConvTranspose1d struct{ ConvTranspose }

// NewConvTranspose1d makes a ConvTranspose1d from in to out channels, initialised as in PyTorch.
func NewConvTranspose1d(in, out int64, kernel Dims, o *ConvTransposeOptions) *ConvTranspose1d {
	return &ConvTranspose1d{newConvTranspose("NewConvTranspose1d", 1, in, out, kernel, deref(o))}
}

// Forward maps [N, in, L] to [N, out, L'].
func (c *ConvTranspose1d) Forward(x torch.Tensor) torch.Tensor {
	return c.trace(x, functional.ConvTranspose1d(x, c.Weight, c.Bias, c.Options))
}

// ForwardSize is like Forward but with a given output size, [L'], one of those that a convolution
// would map to the input's size: output_size.
func (c *ConvTranspose1d) ForwardSize(x torch.Tensor, size Dims) torch.Tensor {
	return c.trace(x, functional.ConvTranspose1d(x, c.Weight, c.Bias, c.withSize("ConvTranspose1d", x, size)))
}

// ConvTranspose2d is the gradient of a [Conv2d] with respect to its input, as a layer:
// torch.nn.ConvTranspose2d.
type ConvTranspose2d struct{ ConvTranspose }

// NewConvTranspose2d makes a ConvTranspose2d from in to out channels, initialised as in PyTorch.
func NewConvTranspose2d(in, out int64, kernel Dims, o *ConvTransposeOptions) *ConvTranspose2d {
	return &ConvTranspose2d{newConvTranspose("NewConvTranspose2d", 2, in, out, kernel, deref(o))}
}

// Forward maps [N, in, H, W] to [N, out, H', W'].
func (c *ConvTranspose2d) Forward(x torch.Tensor) torch.Tensor {
	return c.trace(x, functional.ConvTranspose2d(x, c.Weight, c.Bias, c.Options))
}

// ForwardSize is like Forward but with a given output size, [H', W'], one of those that a
// convolution would map to the input's size: output_size.
func (c *ConvTranspose2d) ForwardSize(x torch.Tensor, size Dims) torch.Tensor {
	return c.trace(x, functional.ConvTranspose2d(x, c.Weight, c.Bias, c.withSize("ConvTranspose2d", x, size)))
}

// ConvTranspose3d is the gradient of a [Conv3d] with respect to its input, as a layer:
// torch.nn.ConvTranspose3d.
type ConvTranspose3d struct{ ConvTranspose }

// NewConvTranspose3d makes a ConvTranspose3d from in to out channels, initialised as in PyTorch.
func NewConvTranspose3d(in, out int64, kernel Dims, o *ConvTransposeOptions) *ConvTranspose3d {
	return &ConvTranspose3d{newConvTranspose("NewConvTranspose3d", 3, in, out, kernel, deref(o))}
}

// Forward maps [N, in, D, H, W] to [N, out, D', H', W'].
func (c *ConvTranspose3d) Forward(x torch.Tensor) torch.Tensor {
	return c.trace(x, functional.ConvTranspose3d(x, c.Weight, c.Bias, c.Options))
}

// ForwardSize is like Forward but with a given output size, [D', H', W'], one of those that a
// convolution would map to the input's size: output_size.
func (c *ConvTranspose3d) ForwardSize(x torch.Tensor, size Dims) torch.Tensor {
	return c.trace(x, functional.ConvTranspose3d(x, c.Weight, c.Bias, c.withSize("ConvTranspose3d", x, size)))
}
