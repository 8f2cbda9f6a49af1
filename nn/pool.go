package nn

import "github.com/gotrainer/gotrainer/torch"

// MaxPool2dOptions configures [NewMaxPool2d]. Nil and the zero value mean PyTorch's defaults.
type MaxPool2dOptions struct {
	Stride   Dims // nil means the kernel's size
	Padding  Dims // nil means 0
	Dilation Dims // nil means 1
	CeilMode bool // the last window may reach over the border
}

// MaxPool2d takes the maximum over windows: torch.nn.MaxPool2d.
type MaxPool2d struct{ Options torch.PoolOptions }

// NewMaxPool2d makes a MaxPool2d with windows of the size of kernel.
func NewMaxPool2d(kernel Dims, o *MaxPool2dOptions) *MaxPool2d {
	opt := deref(o)
	p := newPool("NewMaxPool2d", kernel, opt.Stride, opt.Padding, opt.CeilMode)
	p.Dilation = spread("NewMaxPool2d", "Dilation", opt.Dilation, 1, 2)
	return &MaxPool2d{p}
}

// Forward maps [N, C, H, W] to [N, C, H', W'].
func (m *MaxPool2d) Forward(x torch.Tensor) torch.Tensor { return x.MaxPool2d(m.Options) }

// AvgPool2dOptions configures [NewAvgPool2d]. Nil and the zero value mean PyTorch's defaults.
type AvgPool2dOptions struct {
	Stride          Dims  // nil means the kernel's size
	Padding         Dims  // nil means 0
	CeilMode        bool  // the last window may reach over the border
	ExcludePad      bool  // padding does not count in the mean: count_include_pad=False
	DivisorOverride int64 // divides the sum of a window; zero means the number of its elements
}

// AvgPool2d takes the mean over windows: torch.nn.AvgPool2d.
type AvgPool2d struct {
	Options         torch.PoolOptions
	ExcludePad      bool
	DivisorOverride int64
}

// NewAvgPool2d makes an AvgPool2d with windows of the size of kernel.
func NewAvgPool2d(kernel Dims, o *AvgPool2dOptions) *AvgPool2d {
	opt := deref(o)
	return &AvgPool2d{newPool("NewAvgPool2d", kernel, opt.Stride, opt.Padding, opt.CeilMode), opt.ExcludePad, opt.DivisorOverride}
}

// Forward maps [N, C, H, W] to [N, C, H', W'].
func (a *AvgPool2d) Forward(x torch.Tensor) torch.Tensor {
	if !a.ExcludePad && a.DivisorOverride == 0 {
		return x.AvgPool2d(a.Options)
	}
	var divisor any
	if a.DivisorOverride != 0 {
		divisor = a.DivisorOverride
	}
	p := a.Options
	return torch.Call("aten::avg_pool2d", x, p.Kernel, p.Stride, p.Padding, p.CeilMode, !a.ExcludePad, divisor)[0]
}

func newPool(op string, kernel, stride, padding Dims, ceil bool) torch.PoolOptions {
	if len(kernel) == 0 {
		panic(mistake(op, torch.ErrValue, "the kernel has no size; want 1 or 2 numbers"))
	}
	kernel = spread(op, "the kernel", kernel, 1, 2)
	for _, k := range kernel {
		mustBePositive(op, "the kernel", k)
	}
	if len(stride) == 0 {
		stride = kernel
	}
	return torch.PoolOptions{Kernel: kernel, Stride: spread(op, "Stride", stride, 1, 2), Padding: spread(op, "Padding", padding, 0, 2), CeilMode: ceil}
}
