package nn

import (
	"cmp"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// LayerNormOptions configures [NewLayerNorm]. Nil and the zero value mean PyTorch's defaults.
type LayerNormOptions struct {
	Eps      float64             // added to the variance; zero means 1e-5
	NoAffine bool                // omit weight and bias: elementwise_affine=False
	NoBias   bool                // omit the bias
	Factory  torch.TensorOptions // dtype and device of the parameters
}

// LayerNorm normalises over the last dimensions: torch.nn.LayerNorm.
type LayerNorm struct {
	Weight torch.Tensor `param:"weight"` // has the shape that is normalised over
	Bias   torch.Tensor `param:"bias"`

	Shape Dims
	Eps   float64

	traced
}

// NewLayerNorm makes a LayerNorm over the last len(shape) dimensions, which must have these sizes.
func NewLayerNorm(shape Dims, o *LayerNormOptions) *LayerNorm {
	if len(shape) == 0 {
		panic(torch.Errorf("nn.NewLayerNorm", torch.ErrValue, "want the size of at least one dimension"))
	}
	opt := deref(o)
	l := &LayerNorm{Shape: slices.Clone(shape), Eps: cmp.Or(opt.Eps, 1e-5)}
	if !opt.NoAffine {
		l.Weight = Parameter(opt.Factory.Ones(shape...))
		if !opt.NoBias {
			l.Bias = Parameter(opt.Factory.Zeros(shape...))
		}
	}
	return l
}

// Forward normalises [..., shape].
func (l *LayerNorm) Forward(x torch.Tensor) torch.Tensor {
	return l.trace(x, x.LayerNorm(l.Shape, l.Weight, l.Bias, l.Eps))
}
