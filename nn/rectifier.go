package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Threshold keeps elements above Threshold and sets the others to Value: torch.nn.Threshold.
type Threshold struct{ Threshold, Value float64 }

// Forward keeps the shape of x.
func (t Threshold) Forward(x torch.Tensor) torch.Tensor {
	return functional.Threshold(x, t.Threshold, t.Value)
}

// ReLU6 is min(max(0, x), 6): torch.nn.ReLU6.
type ReLU6 struct{}

// Forward keeps the shape of x.
func (ReLU6) Forward(x torch.Tensor) torch.Tensor { return functional.ReLU6(x) }

// LeakyReLU is x where x is positive and NegativeSlope*x elsewhere: torch.nn.LeakyReLU.
type LeakyReLU struct {
	NegativeSlope float64 // zero means 0.01; [ReLU] has the slope 0
}

// Forward keeps the shape of x.
func (l LeakyReLU) Forward(x torch.Tensor) torch.Tensor {
	return functional.LeakyReLU(x, cmp.Or(l.NegativeSlope, 0.01))
}

// PReLUOptions configures [NewPReLU]. Nil and the zero value mean PyTorch's defaults.
type PReLUOptions struct {
	Channels int64               // one slope for each channel, the second dimension; zero means 1, a single slope for all
	Init     *float64            // the initial slope; nil means 0.25
	Factory  torch.TensorOptions // dtype and device of the weight
}

// PReLU is x where x is positive and a trained slope times x elsewhere: torch.nn.PReLU.
type PReLU struct {
	Weight torch.Tensor `param:"weight"` // [1] or [channels]

	traced
}

// NewPReLU makes a PReLU.
func NewPReLU(o *PReLUOptions) *PReLU {
	opt := deref(o)
	channels := cmp.Or(opt.Channels, 1)
	mustBePositive("NewPReLU", "Channels", channels)
	return &PReLU{Weight: Parameter(initialize.Constant(opt.Factory.Empty(channels), optional.Or(opt.Init, 0.25)))}
}

// Forward keeps the shape of x, [N, channels, ...].
func (p *PReLU) Forward(x torch.Tensor) torch.Tensor {
	return p.trace(x, functional.PReLU(x, p.Weight))
}

// RReLU is [LeakyReLU] with a slope drawn from [Lower, Upper] for every element while training,
// and with their mean otherwise: torch.nn.RReLU.
type RReLU struct {
	Mode

	Lower float64 // if both are zero: 1/8
	Upper float64 // if both are zero: 1/3
}

// Forward keeps the shape of x.
func (r *RReLU) Forward(x torch.Tensor) torch.Tensor {
	lower, upper := r.Lower, r.Upper
	if lower == 0 && upper == 0 {
		lower, upper = 1./8, 1./3
	}
	return functional.RReLU(x, lower, upper, r.Training())
}

// ELU is x where x is positive and Alpha*(exp(x)-1) elsewhere: torch.nn.ELU.
type ELU struct {
	Alpha float64 // zero means 1
}

// Forward keeps the shape of x.
func (e ELU) Forward(x torch.Tensor) torch.Tensor { return functional.ELU(x, cmp.Or(e.Alpha, 1)) }

// CELU is max(0, x) + min(0, Alpha*(exp(x/Alpha)-1)): torch.nn.CELU.
type CELU struct {
	Alpha float64 // zero means 1
}

// Forward keeps the shape of x.
func (c CELU) Forward(x torch.Tensor) torch.Tensor { return functional.CELU(x, cmp.Or(c.Alpha, 1)) }

// SELU is [ELU] scaled so that layers preserve mean and variance: torch.nn.SELU.
type SELU struct{}

// Forward keeps the shape of x.
func (SELU) Forward(x torch.Tensor) torch.Tensor { return functional.SELU(x) }

// Hardtanh limits x to [Min, Max]: torch.nn.Hardtanh.
type Hardtanh struct {
	Min float64 // if both are zero: -1
	Max float64 // if both are zero: 1
}

// Forward keeps the shape of x.
func (h Hardtanh) Forward(x torch.Tensor) torch.Tensor {
	if h.Min == 0 && h.Max == 0 {
		return functional.Hardtanh(x, -1, 1)
	}
	return functional.Hardtanh(x, h.Min, h.Max)
}

// Hardswish is x * relu6(x+3) / 6: torch.nn.Hardswish.
type Hardswish struct{}

// Forward keeps the shape of x.
func (Hardswish) Forward(x torch.Tensor) torch.Tensor { return functional.Hardswish(x) }

// Hardsigmoid is relu6(x+3) / 6: torch.nn.Hardsigmoid.
type Hardsigmoid struct{}

// Forward keeps the shape of x.
func (Hardsigmoid) Forward(x torch.Tensor) torch.Tensor { return functional.Hardsigmoid(x) }

// Mish is x * tanh(softplus(x)): torch.nn.Mish.
type Mish struct{}

// Forward keeps the shape of x.
func (Mish) Forward(x torch.Tensor) torch.Tensor { return functional.Mish(x) }
