package nn

import (
	"cmp"
	"slices"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// GroupNormOptions configures [NewGroupNorm]. Nil and the zero value mean PyTorch's defaults.
type GroupNormOptions struct {
	Eps      float64             // added to the variance; zero means 1e-5
	NoAffine bool                // omit weight and bias
	Factory  torch.TensorOptions // dtype and device of the parameters
}

// GroupNorm normalises groups of channels: torch.nn.GroupNorm.
type GroupNorm struct {
	Weight torch.Tensor `param:"weight"` // [channels]
	Bias   torch.Tensor `param:"bias"`   // [channels]

	Groups int64
	Eps    float64

	traced
}

// NewGroupNorm makes a GroupNorm that divides the channels into the given number of groups.
func NewGroupNorm(groups, channels int64, o *GroupNormOptions) *GroupNorm {
	mustBePositive("NewGroupNorm", "groups", groups)
	mustBePositive("NewGroupNorm", "channels", channels)
	if channels%groups != 0 {
		panic(torch.Errorf("nn.NewGroupNorm", torch.ErrValue, "channels (%d) must be divisible by groups (%d)",
			channels,
			groups))
	}
	opt := deref(o)
	g := &GroupNorm{Groups: groups, Eps: cmp.Or(opt.Eps, 1e-5)}
	if !opt.NoAffine {
		g.Weight, g.Bias = Parameter(opt.Factory.Ones(channels)), Parameter(opt.Factory.Zeros(channels))
	}
	return g
}

// Forward normalises [N, channels, ...].
func (g *GroupNorm) Forward(x torch.Tensor) torch.Tensor {
	return g.trace(x, functional.GroupNorm(x, g.Groups, g.Weight, g.Bias, g.Eps))
}

// RMSNormOptions configures [NewRMSNorm]. Nil and the zero value mean PyTorch's defaults.
type RMSNormOptions struct {
	// added to the mean square; zero means the smallest step of the dtype above 1: PyTorch's None
	Eps      float64
	NoAffine bool                // omit the weight
	Factory  torch.TensorOptions // dtype and device of the weight
}

// RMSNorm divides by the root of the mean square over the last dimensions: torch.nn.RMSNorm.
type RMSNorm struct {
	Weight torch.Tensor `param:"weight"` // has the shape that is normalised over

	Shape Dims
	Eps   float64

	traced
}

// NewRMSNorm makes an RMSNorm over the last len(shape) dimensions, which must have these sizes.
func NewRMSNorm(shape Dims, o *RMSNormOptions) *RMSNorm {
	if len(shape) == 0 {
		panic(torch.Errorf("nn.NewRMSNorm", torch.ErrValue, "want the size of at least one dimension"))
	}
	opt := deref(o)
	r := &RMSNorm{Shape: slices.Clone(shape), Eps: opt.Eps}
	if !opt.NoAffine {
		r.Weight = Parameter(opt.Factory.Ones(shape...))
	}
	return r
}

// Forward normalises [..., shape].
func (r *RMSNorm) Forward(x torch.Tensor) torch.Tensor {
	return r.trace(x, functional.RMSNorm(x, r.Shape, r.Weight, r.Eps))
}

// LocalResponseNorm divides each channel by a function of the squares of Size neighbouring
// channels: torch.nn.LocalResponseNorm.
type LocalResponseNorm struct {
	Size  int64    // the number of channels; required
	Alpha *float64 // factor of the mean square; nil means 1e-4
	Beta  *float64 // exponent; nil means 0.75
	K     *float64 // added to the mean square; nil means 1
}

// Forward normalises [N, channels, ...].
func (l LocalResponseNorm) Forward(x torch.Tensor) torch.Tensor {
	return functional.LocalResponseNorm(x, l.Size, optional.Or(l.Alpha, 1e-4), optional.Or(l.Beta, 0.75),
		optional.Or(l.K, 1))
}
