package nn

import (
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// MaxUnpoolOptions configures [NewMaxUnpool1d], [NewMaxUnpool2d] and [NewMaxUnpool3d]. Nil and the
// zero value mean PyTorch's defaults.
type MaxUnpoolOptions struct {
	Stride  Dims // nil means the kernel's size
	Padding Dims // nil means 0
}

// MaxUnpool puts maxima back in their places, and zeros elsewhere. It is the common part of
// [MaxUnpool1d], [MaxUnpool2d] and [MaxUnpool3d].
type MaxUnpool struct {
	Kernel Dims

	MaxUnpoolOptions
}

func newMaxUnpool(op string, dims int, kernel Dims, o MaxUnpoolOptions) MaxUnpool {
	p := newPool(op, dims, kernel, o.Stride, o.Padding, false)
	return MaxUnpool{p.Kernel, MaxUnpoolOptions{p.Stride, p.Padding}}
}

func (m *MaxUnpool) call(size Dims) functional.MaxUnpoolOptions {
	return functional.MaxUnpoolOptions{Stride: m.Stride, Padding: m.Padding, Size: size}
}

// MaxUnpool1d is [MaxUnpool] for sequences: torch.nn.MaxUnpool1d.
type MaxUnpool1d struct{ MaxUnpool }

// NewMaxUnpool1d makes a MaxUnpool1d that reverses a [MaxPool1d] with the same kernel and options.
func NewMaxUnpool1d(kernel Dims, o *MaxUnpoolOptions) *MaxUnpool1d {
	return &MaxUnpool1d{newMaxUnpool("NewMaxUnpool1d", 1, kernel, deref(o))}
}

// Forward takes maxima, [N, C, L], and their indices from [MaxPool1d.ForwardIndices]. size is the
// size of the output after the channels, since pooling maps several sizes to one; nil means the
// smallest size that is divided without a remainder.
func (m *MaxUnpool1d) Forward(x, indices torch.Tensor, size Dims) torch.Tensor {
	return functional.MaxUnpool1d(x, indices, m.Kernel, m.call(size))
}

// MaxUnpool2d is [MaxUnpool] for images: torch.nn.MaxUnpool2d.
type MaxUnpool2d struct{ MaxUnpool }

// NewMaxUnpool2d makes a MaxUnpool2d that reverses a [MaxPool2d] with the same kernel and options.
func NewMaxUnpool2d(kernel Dims, o *MaxUnpoolOptions) *MaxUnpool2d {
	return &MaxUnpool2d{newMaxUnpool("NewMaxUnpool2d", 2, kernel, deref(o))}
}

// Forward takes maxima, [N, C, H, W], and their indices from [MaxPool2d.ForwardIndices]. size is
// the size of the output after the channels, since pooling maps several sizes to one; nil means
// the smallest size that is divided without a remainder.
func (m *MaxUnpool2d) Forward(x, indices torch.Tensor, size Dims) torch.Tensor {
	return functional.MaxUnpool2d(x, indices, m.Kernel, m.call(size))
}

// MaxUnpool3d is [MaxUnpool] for volumes: torch.nn.MaxUnpool3d.
type MaxUnpool3d struct{ MaxUnpool }

// NewMaxUnpool3d makes a MaxUnpool3d that reverses a [MaxPool3d] with the same kernel and options.
func NewMaxUnpool3d(kernel Dims, o *MaxUnpoolOptions) *MaxUnpool3d {
	return &MaxUnpool3d{newMaxUnpool("NewMaxUnpool3d", 3, kernel, deref(o))}
}

// Forward takes maxima, [N, C, D, H, W], and their indices from [MaxPool3d.ForwardIndices]. size
// is the size of the output after the channels, since pooling maps several sizes to one; nil means
// the smallest size that is divided without a remainder.
func (m *MaxUnpool3d) Forward(x, indices torch.Tensor, size Dims) torch.Tensor {
	return functional.MaxUnpool3d(x, indices, m.Kernel, m.call(size))
}
