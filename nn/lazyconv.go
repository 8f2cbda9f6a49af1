package nn

import "github.com/gotrainer/gotrainer/torch"

// lazyConv checks what can be checked without the input and returns how the weights are made of it.
func lazyConv(op string, dims int, out int64, kernel Dims, o ConvOptions, weight,
	bias *torch.Tensor) (make func(x torch.Tensor), call torch.ConvOptions, edge border) {
	kernel, call, edge = planConv("New"+op, dims, or(o.Groups, 1), out, kernel, o)
	return func(x torch.Tensor) {
		in := channelsOf(op, x, dims)
		checkConv(op, dims, in, out, call.Groups, kernel)
		*weight, *bias = convWeights(o.Factory, o.NoBias, out, append([]int64{out, in / call.Groups}, kernel...))
	}, call, edge
}

// lazyConvTranspose is lazyConv for transposed convolutions.
func lazyConvTranspose(op string, dims int, out int64, kernel Dims, o ConvTransposeOptions,
	c *ConvTranspose) func(x torch.Tensor) {
	kernel, c.Options = planConvTranspose("New"+op, dims, or(o.Groups, 1), out, kernel, o)
	return func(x torch.Tensor) {
		in := channelsOf(op, x, dims)
		checkConv(op, dims, in, out, c.Options.Groups, kernel)
		c.Weight, c.Bias = convWeights(o.Factory, o.NoBias, out, append([]int64{in, out / c.Options.Groups}, kernel...))
	}
}

// LazyConv1d is a [Conv1d] whose first input tells how many channels come in: torch.nn.LazyConv1d.
// See [LazyLinear].
type LazyConv1d struct {
	Conv1d
	lazy
}

// NewLazyConv1d makes a LazyConv1d to out channels.
func NewLazyConv1d(out int64, kernel Dims, o *ConvOptions) *LazyConv1d {
	c := &LazyConv1d{}
	c.lazy.name = "LazyConv1d"
	c.lazy.make, c.Options, c.border = lazyConv("LazyConv1d", 1, out, kernel, deref(o), &c.Weight, &c.Bias)
	return c
}

// Forward maps [N, in, L] to [N, out, L'].
func (c *LazyConv1d) Forward(x torch.Tensor) torch.Tensor {
	c.materialise(x)
	return c.Conv1d.Forward(x)
}

// LazyConv2d is a [Conv2d] whose first input tells how many channels come in: torch.nn.LazyConv2d.
// See [LazyLinear].
type LazyConv2d struct {
	Conv2d
	lazy
}

// NewLazyConv2d makes a LazyConv2d to out channels.
func NewLazyConv2d(out int64, kernel Dims, o *ConvOptions) *LazyConv2d {
	c := &LazyConv2d{}
	c.lazy.name = "LazyConv2d"
	c.lazy.make, c.Options, c.border = lazyConv("LazyConv2d", 2, out, kernel, deref(o), &c.Weight, &c.Bias)
	return c
}

// Forward maps [N, in, H, W] to [N, out, H', W'].
func (c *LazyConv2d) Forward(x torch.Tensor) torch.Tensor {
	c.materialise(x)
	return c.Conv2d.Forward(x)
}

// LazyConv3d is a [Conv3d] whose first input tells how many channels come in: torch.nn.LazyConv3d.
// See [LazyLinear].
type LazyConv3d struct {
	Conv3d
	lazy
}

// NewLazyConv3d makes a LazyConv3d to out channels.
func NewLazyConv3d(out int64, kernel Dims, o *ConvOptions) *LazyConv3d {
	c := &LazyConv3d{}
	c.lazy.name = "LazyConv3d"
	c.lazy.make, c.Options, c.border = lazyConv("LazyConv3d", 3, out, kernel, deref(o), &c.Weight, &c.Bias)
	return c
}

// Forward maps [N, in, D, H, W] to [N, out, D', H', W'].
func (c *LazyConv3d) Forward(x torch.Tensor) torch.Tensor {
	c.materialise(x)
	return c.Conv3d.Forward(x)
}

// LazyConvTranspose1d is a [ConvTranspose1d] whose first input tells how many channels come in:
// torch.nn.LazyConvTranspose1d. See [LazyLinear].
type LazyConvTranspose1d struct {
	ConvTranspose1d
	lazy
}

// NewLazyConvTranspose1d makes a LazyConvTranspose1d to out channels.
func NewLazyConvTranspose1d(out int64, kernel Dims, o *ConvTransposeOptions) *LazyConvTranspose1d {
	c := &LazyConvTranspose1d{}
	c.lazy = lazy{"LazyConvTranspose1d", lazyConvTranspose("LazyConvTranspose1d", 1, out, kernel, deref(o),
		&c.ConvTranspose)}
	return c
}

// Forward maps [N, in, L] to [N, out, L'].
func (c *LazyConvTranspose1d) Forward(x torch.Tensor) torch.Tensor {
	c.materialise(x)
	return c.ConvTranspose1d.Forward(x)
}

// ForwardSize is Forward to this size, [L']: see [ConvTranspose1d.ForwardSize].
func (c *LazyConvTranspose1d) ForwardSize(x torch.Tensor, size Dims) torch.Tensor {
	c.materialise(x)
	return c.ConvTranspose1d.ForwardSize(x, size)
}

// LazyConvTranspose2d is a [ConvTranspose2d] whose first input tells how many channels come in:
// torch.nn.LazyConvTranspose2d. See [LazyLinear].
type LazyConvTranspose2d struct {
	ConvTranspose2d
	lazy
}

// NewLazyConvTranspose2d makes a LazyConvTranspose2d to out channels.
func NewLazyConvTranspose2d(out int64, kernel Dims, o *ConvTransposeOptions) *LazyConvTranspose2d {
	c := &LazyConvTranspose2d{}
	c.lazy = lazy{"LazyConvTranspose2d", lazyConvTranspose("LazyConvTranspose2d", 2, out, kernel, deref(o),
		&c.ConvTranspose)}
	return c
}

// Forward maps [N, in, H, W] to [N, out, H', W'].
func (c *LazyConvTranspose2d) Forward(x torch.Tensor) torch.Tensor {
	c.materialise(x)
	return c.ConvTranspose2d.Forward(x)
}

// ForwardSize is Forward to this size, [H', W']: see [ConvTranspose2d.ForwardSize].
func (c *LazyConvTranspose2d) ForwardSize(x torch.Tensor, size Dims) torch.Tensor {
	c.materialise(x)
	return c.ConvTranspose2d.ForwardSize(x, size)
}

// LazyConvTranspose3d is a [ConvTranspose3d] whose first input tells how many channels come in:
// torch.nn.LazyConvTranspose3d. See [LazyLinear].
type LazyConvTranspose3d struct {
	ConvTranspose3d
	lazy
}

// NewLazyConvTranspose3d makes a LazyConvTranspose3d to out channels.
func NewLazyConvTranspose3d(out int64, kernel Dims, o *ConvTransposeOptions) *LazyConvTranspose3d {
	c := &LazyConvTranspose3d{}
	c.lazy = lazy{"LazyConvTranspose3d", lazyConvTranspose("LazyConvTranspose3d", 3, out, kernel, deref(o),
		&c.ConvTranspose)}
	return c
}

// Forward maps [N, in, D, H, W] to [N, out, D', H', W'].
func (c *LazyConvTranspose3d) Forward(x torch.Tensor) torch.Tensor {
	c.materialise(x)
	return c.ConvTranspose3d.Forward(x)
}

// ForwardSize is Forward to this size, [D', H', W']: see [ConvTranspose3d.ForwardSize].
func (c *LazyConvTranspose3d) ForwardSize(x torch.Tensor, size Dims) torch.Tensor {
	c.materialise(x)
	return c.ConvTranspose3d.ForwardSize(x, size)
}
