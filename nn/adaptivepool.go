package nn

import (
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/nn/internal/dims"
	"github.com/gotrainer/gotrainer/torch"
)

// AdaptiveAvgPool1d takes the mean over windows of sequences so that the output has a given size:
// torch.nn.AdaptiveAvgPool1d.
type AdaptiveAvgPool1d struct {
	Size Dims // of the output; a single number applies to all dimensions, -1 keeps the input's size
}

// NewAdaptiveAvgPool1d makes an AdaptiveAvgPool1d with outputs of the given size.
func NewAdaptiveAvgPool1d(size Dims) *AdaptiveAvgPool1d {
	return &AdaptiveAvgPool1d{adaptiveSize("NewAdaptiveAvgPool1d", size, 1)}
}

// Forward takes [N, C, L].
func (a *AdaptiveAvgPool1d) Forward(x torch.Tensor) torch.Tensor {
	return functional.AdaptiveAvgPool1d(x, a.Size)
}

// AdaptiveAvgPool2d takes the mean over windows of images so that the output has a given size:
// torch.nn.AdaptiveAvgPool2d.
type AdaptiveAvgPool2d struct {
	Size Dims // of the output; a single number applies to all dimensions, -1 keeps the input's size
}

// NewAdaptiveAvgPool2d makes an AdaptiveAvgPool2d with outputs of the given size.
func NewAdaptiveAvgPool2d(size Dims) *AdaptiveAvgPool2d {
	return &AdaptiveAvgPool2d{adaptiveSize("NewAdaptiveAvgPool2d", size, 2)}
}

// Forward takes [N, C, H, W].
func (a *AdaptiveAvgPool2d) Forward(x torch.Tensor) torch.Tensor {
	return functional.AdaptiveAvgPool2d(x, a.Size)
}

// AdaptiveAvgPool3d takes the mean over windows of volumes so that the output has a given size:
// torch.nn.AdaptiveAvgPool3d.
type AdaptiveAvgPool3d struct {
	Size Dims // of the output; a single number applies to all dimensions, -1 keeps the input's size
}

// NewAdaptiveAvgPool3d makes an AdaptiveAvgPool3d with outputs of the given size.
func NewAdaptiveAvgPool3d(size Dims) *AdaptiveAvgPool3d {
	return &AdaptiveAvgPool3d{adaptiveSize("NewAdaptiveAvgPool3d", size, 3)}
}

// Forward takes [N, C, D, H, W].
func (a *AdaptiveAvgPool3d) Forward(x torch.Tensor) torch.Tensor {
	return functional.AdaptiveAvgPool3d(x, a.Size)
}

// AdaptiveMaxPool1d takes the maximum over windows of sequences so that the output has a given
// size: torch.nn.AdaptiveMaxPool1d.
type AdaptiveMaxPool1d struct {
	Size Dims // of the output; a single number applies to all dimensions, -1 keeps the input's size
}

// NewAdaptiveMaxPool1d makes an AdaptiveMaxPool1d with outputs of the given size.
func NewAdaptiveMaxPool1d(size Dims) *AdaptiveMaxPool1d {
	return &AdaptiveMaxPool1d{adaptiveSize("NewAdaptiveMaxPool1d", size, 1)}
}

// Forward takes [N, C, L].
func (a *AdaptiveMaxPool1d) Forward(x torch.Tensor) torch.Tensor {
	return first(a.ForwardIndices(x))
}

// ForwardIndices is like Forward but also returns the indices of the maxima: return_indices.
func (a *AdaptiveMaxPool1d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	return functional.AdaptiveMaxPool1d(x, a.Size)
}

// AdaptiveMaxPool2d takes the maximum over windows of images so that the output has a given size:
// torch.nn.AdaptiveMaxPool2d.
type AdaptiveMaxPool2d struct {
	Size Dims // of the output; a single number applies to all dimensions, -1 keeps the input's size
}

// NewAdaptiveMaxPool2d makes an AdaptiveMaxPool2d with outputs of the given size.
func NewAdaptiveMaxPool2d(size Dims) *AdaptiveMaxPool2d {
	return &AdaptiveMaxPool2d{adaptiveSize("NewAdaptiveMaxPool2d", size, 2)}
}

// Forward takes [N, C, H, W].
func (a *AdaptiveMaxPool2d) Forward(x torch.Tensor) torch.Tensor {
	return first(a.ForwardIndices(x))
}

// ForwardIndices is like Forward but also returns the indices of the maxima: return_indices.
func (a *AdaptiveMaxPool2d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	return functional.AdaptiveMaxPool2d(x, a.Size)
}

// AdaptiveMaxPool3d takes the maximum over windows of volumes so that the output has a given size:
// torch.nn.AdaptiveMaxPool3d.
type AdaptiveMaxPool3d struct {
	Size Dims // of the output; a single number applies to all dimensions, -1 keeps the input's size
}

// NewAdaptiveMaxPool3d makes an AdaptiveMaxPool3d with outputs of the given size.
func NewAdaptiveMaxPool3d(size Dims) *AdaptiveMaxPool3d {
	return &AdaptiveMaxPool3d{adaptiveSize("NewAdaptiveMaxPool3d", size, 3)}
}

// Forward takes [N, C, D, H, W].
func (a *AdaptiveMaxPool3d) Forward(x torch.Tensor) torch.Tensor {
	return first(a.ForwardIndices(x))
}

// ForwardIndices is like Forward but also returns the indices of the maxima: return_indices.
func (a *AdaptiveMaxPool3d) ForwardIndices(x torch.Tensor) (values, indices torch.Tensor) {
	return functional.AdaptiveMaxPool3d(x, a.Size)
}

func adaptiveSize(op string, size Dims, n int) Dims {
	size = dims.Required("nn."+op, "the output's size", size, n)
	for _, s := range size {
		if s < -1 {
			panic(torch.Errorf("nn."+op, torch.ErrValue, "the output's size must not be negative, but for -1, which "+
				"keeps the input's, found %v", size))
		}
	}
	return size
}

// first frees the second of two results and returns the first.
func first(a, b torch.Tensor) torch.Tensor {
	b.Free()
	return a
}
