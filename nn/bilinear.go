package nn

import (
	"math"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Bilinear computes x1ᵀ·W[k]·x2 + b[k] for every output k: torch.nn.Bilinear.
type Bilinear struct {
	Weight torch.Tensor `param:"weight"` // [out, in1, in2]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	traced
}

// NewBilinear makes a Bilinear from in1 and in2 to out features, drawn uniformly from ±1/sqrt(in1).
func NewBilinear(in1, in2, out int64, o *LinearOptions) *Bilinear {
	mustBePositive("NewBilinear", "in1", in1)
	mustBePositive("NewBilinear", "in2", in2)
	mustBePositive("NewBilinear", "out", out)
	opt := deref(o)
	bound := 1 / math.Sqrt(float64(in1))
	draw := func(shape ...int64) torch.Tensor {
		return Parameter(initialize.Uniform(opt.Factory.Empty(shape...), -bound, bound, opt.Factory.Generator))
	}
	b := &Bilinear{Weight: draw(out, in1, in2)}
	if !opt.NoBias {
		b.Bias = draw(out)
	}
	return b
}

// Forward maps [..., in1] and [..., in2] to [..., out].
func (b *Bilinear) Forward(x1, x2 torch.Tensor) torch.Tensor {
	return b.trace(x1, functional.Bilinear(x1, x2, b.Weight, b.Bias))
}
