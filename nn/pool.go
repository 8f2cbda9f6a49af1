package nn

import (
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// MaxPoolOptions configures [NewMaxPool1d], [NewMaxPool2d] and [NewMaxPool3d]. Nil and the zero
// value mean PyTorch's defaults.
type MaxPoolOptions struct {
	Stride   Dims // nil means the kernel's size
	Padding  Dims // nil means 0
	Dilation Dims // nil means 1
	CeilMode bool // the last window may extend beyond the border
}

func (o MaxPoolOptions) resolve(op string, dims int, kernel Dims) (Dims, functional.MaxPoolOptions) {
	p := newPool(op, dims, kernel, o.Stride, o.Padding, o.CeilMode)
	return p.Kernel, functional.MaxPoolOptions{Stride: p.Stride, Padding: p.Padding, Dilation: spread(op, "Dilation",
		o.Dilation, 1, dims), CeilMode: o.CeilMode}
}

// MaxPool1d takes the maximum over windows of sequences: torch.nn.MaxPool1d.
type MaxPool1d struct {
	Kernel  Dims
	Options functional.MaxPoolOptions
}

// NewMaxPool1d makes a MaxPool1d with windows of size kernel.
func NewMaxPool1d(kernel Dims, o *MaxPoolOptions) *MaxPool1d {
	kernel, options := deref(o).resolve("NewMaxPool1d", 1, kernel)
	return &MaxPool1d{kernel, options}
}

// Forward maps [N, C, L] to [N, C, L'].
func (m *MaxPool1d) Forward(x torch.Tensor) torch.Tensor {
	return functional.MaxPool1d(x, m.Kernel, m.Options)
}

// ForwardIndices is like Forward but also returns the indices of the maxima, for [MaxUnpool1d]:
// return_indices.
func (m *MaxPool1d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	return functional.MaxPool1dWithIndices(x, m.Kernel, m.Options)
}

// MaxPool2d takes the maximum over windows of images: torch.nn.MaxPool2d.
type MaxPool2d struct{ Options torch.PoolOptions }

// NewMaxPool2d makes a MaxPool2d with windows of size kernel.
func NewMaxPool2d(kernel Dims, o *MaxPoolOptions) *MaxPool2d {
	opt := deref(o)
	p := newPool("NewMaxPool2d", 2, kernel, opt.Stride, opt.Padding, opt.CeilMode)
	p.Dilation = spread("NewMaxPool2d", "Dilation", opt.Dilation, 1, 2)
	return &MaxPool2d{p}
}

// Forward maps [N, C, H, W] to [N, C, H', W'].
func (m *MaxPool2d) Forward(x torch.Tensor) torch.Tensor { return x.MaxPool2d(m.Options) }

// ForwardIndices is like Forward but also returns the indices of the maxima, for [MaxUnpool2d]:
// return_indices.
func (m *MaxPool2d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	p := m.Options
	return functional.MaxPool2dWithIndices(x, p.Kernel, functional.MaxPoolOptions{Stride: p.Stride, Padding: p.Padding,
		Dilation: p.Dilation, CeilMode: p.CeilMode})
}

// MaxPool3d takes the maximum over windows of volumes: torch.nn.MaxPool3d.
type MaxPool3d struct {
	Kernel  Dims
	Options functional.MaxPoolOptions
}

// NewMaxPool3d makes a MaxPool3d with windows of size kernel.
func NewMaxPool3d(kernel Dims, o *MaxPoolOptions) *MaxPool3d {
	kernel, options := deref(o).resolve("NewMaxPool3d", 3, kernel)
	return &MaxPool3d{kernel, options}
}

// Forward maps [N, C, D, H, W] to [N, C, D', H', W'].
func (m *MaxPool3d) Forward(x torch.Tensor) torch.Tensor {
	return functional.MaxPool3d(x, m.Kernel, m.Options)
}

// ForwardIndices is like Forward but also returns the indices of the maxima, for [MaxUnpool3d]:
// return_indices.
func (m *MaxPool3d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	return functional.MaxPool3dWithIndices(x, m.Kernel, m.Options)
}

// AvgPoolOptions configures [NewAvgPool1d], [NewAvgPool2d] and [NewAvgPool3d]. Nil and the zero
// value mean PyTorch's defaults.
type AvgPoolOptions struct {
	Stride          Dims  // nil means the kernel's size
	Padding         Dims  // nil means 0
	CeilMode        bool  // the last window may extend beyond the border
	ExcludePad      bool  // exclude padding from the mean: count_include_pad=False
	DivisorOverride int64 // divides the sum of a window, in 2 and 3 dimensions; zero means the number of its elements
}

func (o AvgPoolOptions) resolve(op string, dims int, kernel Dims) (Dims, functional.AvgPoolOptions) {
	p := newPool(op, dims, kernel, o.Stride, o.Padding, o.CeilMode)
	if dims == 1 && o.DivisorOverride != 0 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "DivisorOverride is for 2 and 3 dimensions, found %d",
			o.DivisorOverride))
	}
	return p.Kernel, functional.AvgPoolOptions{Stride: p.Stride, Padding: p.Padding, CeilMode: o.CeilMode,
		ExcludePad: o.ExcludePad, DivisorOverride: o.DivisorOverride}
}

// AvgPool1d takes the mean over windows of sequences: torch.nn.AvgPool1d.
type AvgPool1d struct {
	Kernel  Dims
	Options functional.AvgPoolOptions
}

// NewAvgPool1d makes an AvgPool1d with windows of size kernel.
func NewAvgPool1d(kernel Dims, o *AvgPoolOptions) *AvgPool1d {
	kernel, options := deref(o).resolve("NewAvgPool1d", 1, kernel)
	return &AvgPool1d{kernel, options}
}

// Forward maps [N, C, L] to [N, C, L'].
func (a *AvgPool1d) Forward(x torch.Tensor) torch.Tensor {
	return functional.AvgPool1d(x, a.Kernel, a.Options)
}

// AvgPool2d takes the mean over windows of images: torch.nn.AvgPool2d.
type AvgPool2d struct {
	Options         torch.PoolOptions
	ExcludePad      bool
	DivisorOverride int64
}

// NewAvgPool2d makes an AvgPool2d with windows of size kernel.
func NewAvgPool2d(kernel Dims, o *AvgPoolOptions) *AvgPool2d {
	opt := deref(o)
	return &AvgPool2d{newPool("NewAvgPool2d", 2, kernel, opt.Stride, opt.Padding, opt.CeilMode), opt.ExcludePad,
		opt.DivisorOverride}
}

// Forward maps [N, C, H, W] to [N, C, H', W'].
func (a *AvgPool2d) Forward(x torch.Tensor) torch.Tensor {
	p := a.Options
	if !a.ExcludePad && a.DivisorOverride == 0 {
		return x.AvgPool2d(p)
	}
	return functional.AvgPool2d(x, p.Kernel, functional.AvgPoolOptions{Stride: p.Stride, Padding: p.Padding,
		CeilMode: p.CeilMode, ExcludePad: a.ExcludePad, DivisorOverride: a.DivisorOverride})
}

// AvgPool3d takes the mean over windows of volumes: torch.nn.AvgPool3d.
type AvgPool3d struct {
	Kernel  Dims
	Options functional.AvgPoolOptions
}

// NewAvgPool3d makes an AvgPool3d with windows of size kernel.
func NewAvgPool3d(kernel Dims, o *AvgPoolOptions) *AvgPool3d {
	kernel, options := deref(o).resolve("NewAvgPool3d", 3, kernel)
	return &AvgPool3d{kernel, options}
}

// Forward maps [N, C, D, H, W] to [N, C, D', H', W'].
func (a *AvgPool3d) Forward(x torch.Tensor) torch.Tensor {
	return functional.AvgPool3d(x, a.Kernel, a.Options)
}

func newPool(op string, dims int, kernel, stride, padding Dims, ceil bool) torch.PoolOptions {
	kernel = window(op, kernel, dims)
	if len(stride) == 0 {
		stride = kernel
	}
	return torch.PoolOptions{Kernel: kernel, Stride: spread(op, "Stride", stride, 1, dims),
		Padding: spread(op, "Padding", padding, 0, dims), CeilMode: ceil}
}
