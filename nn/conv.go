package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/nn/internal/dims"
	"github.com/gotrainer/gotrainer/torch"
)

// ConvOptions configures [NewConv1d], [NewConv2d] and [NewConv3d]. Nil and the zero value mean
// PyTorch's defaults.
type ConvOptions struct {
	Stride  Dims // nil means 1
	Padding Dims // on both sides; nil means 0
	// pad so that the output has the size of the input, PyTorch's padding="same"; the stride must
	// be 1
	Same        bool
	Dilation    Dims                // nil means 1
	Groups      int64               // zero means 1
	NoBias      bool                // omit the bias
	PaddingMode functional.PadMode  // what the padding is filled with; empty means zeros
	Factory     torch.TensorOptions // dtype, device and generator of the parameters
}

// Conv1d convolves sequences: torch.nn.Conv1d.
type Conv1d struct {
	Weight torch.Tensor `param:"weight"` // [out, in/groups, k]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	Options torch.ConvOptions
	border  border

	traced
}

// NewConv1d makes a Conv1d from in to out channels, initialised as in PyTorch.
func NewConv1d(in, out int64, kernel Dims, o *ConvOptions) *Conv1d {
	w, b, options, border := newConv("NewConv1d", 1, in, out, kernel, deref(o))
	return &Conv1d{Weight: w, Bias: b, Options: options, border: border}
}

// Forward maps [N, in, L] to [N, out, L'].
func (c *Conv1d) Forward(x torch.Tensor) torch.Tensor {
	if c.border.simple() {
		return c.trace(x, x.Conv1d(c.Weight, c.Bias, c.Options))
	}
	return c.trace(x, c.border.convolve(functional.Conv1d, x, c.Weight, c.Bias, c.Options))
}

// Conv2d convolves images: torch.nn.Conv2d.
type Conv2d struct {
	Weight torch.Tensor `param:"weight"` // [out, in/groups, kh, kw]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	Options torch.ConvOptions
	border  border

	traced
}

// NewConv2d makes a Conv2d from in to out channels, initialised as in PyTorch.
func NewConv2d(in, out int64, kernel Dims, o *ConvOptions) *Conv2d {
	w, b, options, border := newConv("NewConv2d", 2, in, out, kernel, deref(o))
	return &Conv2d{Weight: w, Bias: b, Options: options, border: border}
}

// Forward maps [N, in, H, W] to [N, out, H', W'].
func (c *Conv2d) Forward(x torch.Tensor) torch.Tensor {
	if c.border.simple() {
		return c.trace(x, x.Conv2d(c.Weight, c.Bias, c.Options))
	}
	return c.trace(x, c.border.convolve(functional.Conv2d, x, c.Weight, c.Bias, c.Options))
}

// Conv3d convolves volumes: torch.nn.Conv3d.
type Conv3d struct {
	Weight torch.Tensor `param:"weight"` // [out, in/groups, kd, kh, kw]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	Options torch.ConvOptions
	border  border

	traced
}

// NewConv3d makes a Conv3d from in to out channels, initialised as in PyTorch.
func NewConv3d(in, out int64, kernel Dims, o *ConvOptions) *Conv3d {
	w, b, options, border := newConv("NewConv3d", 3, in, out, kernel, deref(o))
	return &Conv3d{Weight: w, Bias: b, Options: options, border: border}
}

// Forward maps [N, in, D, H, W] to [N, out, D', H', W'].
func (c *Conv3d) Forward(x torch.Tensor) torch.Tensor {
	return c.trace(x, c.border.convolve(functional.Conv3d, x, c.Weight, c.Bias, c.Options))
}

// border is padding that needs more than the convolution's own zero padding.
type border struct {
	same bool               // let libtorch compute the padding
	mode functional.PadMode // empty means zeros, which the convolution adds itself
	pad  []int64            // arguments of functional.Pad if there is a mode
}

func (b *border) simple() bool { return !b.same && b.mode == "" }

func (b *border) convolve(conv func(x, weight, bias torch.Tensor, o functional.ConvOptions) torch.Tensor, x, weight,
	bias torch.Tensor, c torch.ConvOptions) torch.Tensor {
	o := functional.ConvOptions{Stride: c.Stride, Padding: c.Padding, Dilation: c.Dilation, Groups: c.Groups}
	switch {
	case b.mode != "":
		o.Padding = nil
		padded := functional.Pad(x, b.pad, b.mode, 0)
		y := conv(padded, weight, bias, o)
		padded.Free()
		return y
	case b.same:
		o.Padding, o.Same = nil, true
	}
	return conv(x, weight, bias, o)
}

func newConv(op string, dims int, in, out int64, kernel Dims, o ConvOptions) (weight, bias torch.Tensor,
	call torch.ConvOptions, edge border) {
	kernel, call, edge = planConv(op, dims, in, out, kernel, o)
	weight, bias = convWeights(o.Factory, o.NoBias, out, append([]int64{out, in / call.Groups}, kernel...))
	return weight, bias, call, edge
}

// planConv does what newConv does, except creating the weights.
func planConv(op string, dims int, in, out int64, kernel Dims, o ConvOptions) (all Dims, call torch.ConvOptions,
	edge border) {
	groups := cmp.Or(o.Groups, 1)
	kernel = checkConv(op, dims, in, out, groups, kernel)
	call = torch.ConvOptions{
		Stride:   spread(op, "Stride", o.Stride, 1, dims),
		Padding:  spread(op, "Padding", o.Padding, 0, dims),
		Dilation: spread(op, "Dilation", o.Dilation, 1, dims),
		Groups:   groups,
	}
	if o.Same {
		if o.Padding != nil {
			panic(torch.Errorf("nn."+op, torch.ErrValue, "Same and Padding %v are both set; want one", o.Padding))
		}
		for _, s := range call.Stride {
			if s != 1 {
				panic(torch.Errorf("nn."+op, torch.ErrValue, "Same needs the stride 1, found %v", call.Stride))
			}
		}
	}
	return kernel, call, newBorder(op, o, kernel, call)
}

func newBorder(op string, o ConvOptions, kernel Dims, call torch.ConvOptions) border {
	switch o.PaddingMode {
	case "":
		return border{same: o.Same}
	case functional.PadReflect, functional.PadReplicate, functional.PadCircular:
	default:
		panic(torch.Errorf("nn."+op, torch.ErrValue, "PaddingMode %q is not known; want reflect, replicate or "+
			"circular, or "+
			"nothing for zeros", o.PaddingMode))
	}
	b := border{mode: o.PaddingMode, pad: make([]int64, 0, 2*len(kernel))}
	for i := len(kernel) - 1; i >= 0; i-- { // functional.Pad begins with the last dimension
		left, right := call.Padding[i], call.Padding[i]
		if o.Same {
			total := call.Dilation[i] * (kernel[i] - 1)
			left, right = total/2, total-total/2
		}
		b.pad = append(b.pad, left, right)
	}
	return b
}

// checkConv checks the arguments that all convolutions share and returns the kernel's size in each
// dimension.
func checkConv(op string, dims int, in, out, groups int64, kernel Dims) Dims {
	mustBePositive(op, "in", in)
	mustBePositive(op, "out", out)
	mustBePositive(op, "Groups", groups)
	if in%groups != 0 || out%groups != 0 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "in (%d) and out (%d) must be divisible by Groups (%d)", in, out,
			groups))
	}
	return window(op, kernel, dims)
}

func convWeights(f torch.TensorOptions, noBias bool, out int64, shape []int64) (weight, bias torch.Tensor) {
	weight = f.Empty(shape...)
	if !noBias {
		bias = f.Empty(out)
	}
	return resetWeights(weight, bias, f.Generator)
}

// spread returns n numbers: a single number in d applies to all dimensions, and an empty d means
// the default.
func spread(op, name string, d Dims, standard int64, n int) Dims {
	return dims.Spread("nn."+op, name, d, standard, n)
}

// window is like [spread] for the size of a kernel, which has no default.
func window(op string, kernel Dims, n int) Dims {
	kernel = dims.Required("nn."+op, "the kernel", kernel, n)
	for _, k := range kernel {
		mustBePositive(op, "the kernel", k)
	}
	return kernel
}
