package nn

import (
	"github.com/gotrainer/gotrainer/torch"
)

// ConvOptions configures [NewConv1d] and [NewConv2d]. Nil and the zero value mean PyTorch's defaults.
type ConvOptions struct {
	Stride   Dims          // nil means 1
	Padding  Dims          // zeros on both sides; nil means 0
	Dilation Dims          // nil means 1
	Groups   int64         // zero means 1
	NoBias   bool          // leave the bias out
	Factory  torch.Options // dtype, device and generator of the parameters
}

// Conv1d convolves sequences: torch.nn.Conv1d.
type Conv1d struct {
	Weight torch.Tensor `param:"weight"` // [out, in/groups, k]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	Options torch.ConvOptions
}

// NewConv1d makes a Conv1d from in to out channels, drawn as PyTorch does.
func NewConv1d(in, out int64, kernel Dims, o *ConvOptions) *Conv1d {
	w, b, options := newConv("NewConv1d", 1, in, out, kernel, deref(o))
	return &Conv1d{w, b, options}
}

// Forward maps [N, in, L] to [N, out, L'].
func (c *Conv1d) Forward(x torch.Tensor) torch.Tensor { return x.Conv1d(c.Weight, c.Bias, c.Options) }

// Conv2d convolves images: torch.nn.Conv2d.
type Conv2d struct {
	Weight torch.Tensor `param:"weight"` // [out, in/groups, kh, kw]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	Options torch.ConvOptions
}

// NewConv2d makes a Conv2d from in to out channels, drawn as PyTorch does.
func NewConv2d(in, out int64, kernel Dims, o *ConvOptions) *Conv2d {
	w, b, options := newConv("NewConv2d", 2, in, out, kernel, deref(o))
	return &Conv2d{w, b, options}
}

// Forward maps [N, in, H, W] to [N, out, H', W'].
func (c *Conv2d) Forward(x torch.Tensor) torch.Tensor { return x.Conv2d(c.Weight, c.Bias, c.Options) }

func newConv(op string, dims int, in, out int64, kernel Dims, o ConvOptions) (weight, bias torch.Tensor, call torch.ConvOptions) {
	groups := or(o.Groups, 1)
	mustBePositive(op, "in", in)
	mustBePositive(op, "out", out)
	mustBePositive(op, "Groups", groups)
	if in%groups != 0 || out%groups != 0 {
		panic(mistake(op, torch.ErrValue, "in (%d) and out (%d) must be divisible by Groups (%d)", in, out, groups))
	}
	if len(kernel) == 0 {
		panic(mistake(op, torch.ErrValue, "the kernel has no size; want 1 or %d numbers", dims))
	}
	kernel = spread(op, "the kernel", kernel, 1, dims)
	for _, k := range kernel {
		mustBePositive(op, "the kernel", k)
	}
	weight = o.Factory.Empty(append([]int64{out, in / groups}, kernel...)...)
	if !o.NoBias {
		bias = o.Factory.Empty(out)
	}
	weight, bias = resetWeights(weight, bias, o.Factory.Generator)
	return weight, bias, torch.ConvOptions{
		Stride:   spread(op, "Stride", o.Stride, 1, dims),
		Padding:  spread(op, "Padding", o.Padding, 0, dims),
		Dilation: spread(op, "Dilation", o.Dilation, 1, dims),
		Groups:   groups,
	}
}

// spread gives every dimension its number: a single one stands for all, none means the default.
func spread(op, name string, d Dims, otherwise int64, dims int) Dims {
	switch len(d) {
	case 0:
		d = Dims{otherwise}
	case 1, dims:
	default:
		panic(mistake(op, torch.ErrValue, "%s has %d numbers; want 1 or %d", name, len(d), dims))
	}
	all := make(Dims, dims)
	for i := range all {
		all[i] = d[min(i, len(d)-1)]
	}
	return all
}
