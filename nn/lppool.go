package nn

import (
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// LPPoolOptions configures [NewLPPool1d], [NewLPPool2d] and [NewLPPool3d]. Nil and the zero value
// mean PyTorch's defaults.
type LPPoolOptions struct {
	Stride   Dims // nil means the kernel's size
	CeilMode bool // the last window may extend beyond the border
}

// LPPool takes the p-norm over windows. It is the common part of [LPPool1d], [LPPool2d] and
// [LPPool3d].
type LPPool struct {
	P      float64
	Kernel Dims

	LPPoolOptions
}

func newLPPool(op string, dims int, p float64, kernel Dims, o LPPoolOptions) LPPool {
	if p == 0 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "the norm's p must not be 0"))
	}
	kernel = window(op, kernel, dims)
	if len(o.Stride) == 0 {
		o.Stride = kernel
	}
	o.Stride = spread(op, "Stride", o.Stride, 1, dims)
	return LPPool{p, kernel, o}
}

// LPPool1d is [LPPool] for sequences: torch.nn.LPPool1d.
type LPPool1d struct{ LPPool }

// NewLPPool1d makes an LPPool1d of the p-norm, with windows of size kernel.
func NewLPPool1d(p float64, kernel Dims, o *LPPoolOptions) *LPPool1d {
	return &LPPool1d{newLPPool("NewLPPool1d", 1, p, kernel, deref(o))}
}

// Forward takes [N, C, L].
func (l *LPPool1d) Forward(x torch.Tensor) torch.Tensor {
	return functional.LPPool1d(x, l.P, l.Kernel, l.Stride, l.CeilMode)
}

// LPPool2d is [LPPool] for images: torch.nn.LPPool2d.
type LPPool2d struct{ LPPool }

// NewLPPool2d makes an LPPool2d of the p-norm, with windows of size kernel.
func NewLPPool2d(p float64, kernel Dims, o *LPPoolOptions) *LPPool2d {
	return &LPPool2d{newLPPool("NewLPPool2d", 2, p, kernel, deref(o))}
}

// Forward takes [N, C, H, W].
func (l *LPPool2d) Forward(x torch.Tensor) torch.Tensor {
	return functional.LPPool2d(x, l.P, l.Kernel, l.Stride, l.CeilMode)
}

// LPPool3d is [LPPool] for volumes: torch.nn.LPPool3d.
type LPPool3d struct{ LPPool }

// NewLPPool3d makes an LPPool3d of the p-norm, with windows of size kernel.
func NewLPPool3d(p float64, kernel Dims, o *LPPoolOptions) *LPPool3d {
	return &LPPool3d{newLPPool("NewLPPool3d", 3, p, kernel, deref(o))}
}

// Forward takes [N, C, D, H, W].
func (l *LPPool3d) Forward(x torch.Tensor) torch.Tensor {
	return functional.LPPool3d(x, l.P, l.Kernel, l.Stride, l.CeilMode)
}

// FractionalMaxPool2d takes the maximum over windows of images at random places, after Graham
// (2015): torch.nn.FractionalMaxPool2d.
type FractionalMaxPool2d struct {
	Kernel  Dims
	Options functional.FractionalMaxPoolOptions
}

// NewFractionalMaxPool2d makes a FractionalMaxPool2d. The options set the size of the output.
func NewFractionalMaxPool2d(kernel Dims, o functional.FractionalMaxPoolOptions) *FractionalMaxPool2d {
	return &FractionalMaxPool2d{fractional("NewFractionalMaxPool2d", kernel, 2, o), o}
}

// Forward takes [N, C, H, W].
func (f *FractionalMaxPool2d) Forward(x torch.Tensor) torch.Tensor { return first(f.ForwardIndices(x)) }

// ForwardIndices is like Forward but also returns the indices of the maxima: return_indices.
func (f *FractionalMaxPool2d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	return functional.FractionalMaxPool2d(x, f.Kernel, f.Options)
}

// FractionalMaxPool3d takes the maximum over windows of volumes at random places, after Graham
// (2015): torch.nn.FractionalMaxPool3d.
type FractionalMaxPool3d struct {
	Kernel  Dims
	Options functional.FractionalMaxPoolOptions
}

// NewFractionalMaxPool3d makes a FractionalMaxPool3d. The options set the size of the output.
func NewFractionalMaxPool3d(kernel Dims, o functional.FractionalMaxPoolOptions) *FractionalMaxPool3d {
	return &FractionalMaxPool3d{fractional("NewFractionalMaxPool3d", kernel, 3, o), o}
}

// Forward takes [N, C, D, H, W].
func (f *FractionalMaxPool3d) Forward(x torch.Tensor) torch.Tensor { return first(f.ForwardIndices(x)) }

// ForwardIndices is like Forward but also returns the indices of the maxima: return_indices.
func (f *FractionalMaxPool3d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	return functional.FractionalMaxPool3d(x, f.Kernel, f.Options)
}

// fractional checks the options and returns the kernel's size in each of n dimensions.
func fractional(op string, kernel Dims, n int, o functional.FractionalMaxPoolOptions) Dims {
	if (o.Size == nil) == (o.Ratio == nil) {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "want one of Size and Ratio"))
	}
	return window(op, kernel, n)
}
