package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// Rprop uses only the signs of gradients, for training with all the data in one batch:
// torch.optim.Rprop. Each element has a step size s, initially the learning rate. With g the
// gradient and h the previous one:
//
//	s *= EtaPlus if g*h > 0, EtaMinus if g*h < 0; kept between MinStep and MaxStep
//	g  = 0 if g*h < 0
//	p -= s * sign(g)
//
// The rate given to Step matters only at a parameter's first gradient, as in PyTorch. There is no
// weight decay; a Group with one is refused.
//
// Source: Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning,
// https://doi.org/10.1109/ICNN.1993.298623.
type Rprop struct {
	LR       float64  // first step size; zero means 1e-2
	EtaMinus *float64 // factor after a change of sign, between 0 and 1; nil means 0.5
	EtaPlus  *float64 // factor otherwise, above 1; nil means 1.2
	MinStep  *float64 // nil means 1e-6
	MaxStep  *float64 // nil means 50
	Maximize bool     // maximize the objective instead of minimizing it

	Implementation Implementation // there is no fused kernel
}

// NewRprop makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [Rprop.Build] would fail.
func NewRprop(params []torch.Named, o Rprop) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewRprop", opt, err)
}

// LearningRate returns LR or its default.
func (o Rprop) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// Build makes the optimizer.
func (o Rprop) Build(groups []Group) (Optimizer, error) {
	minus, plus, low, high := optional.Or(o.EtaMinus, 0.5), optional.Or(o.EtaPlus, 1.2), optional.Or(o.MinStep, 1e-6),
		optional.Or(o.MaxStep, 50)
	err := checkSettings("Rprop", setting{name: "LR", value: o.LearningRate()}, setting{"EtaMinus", minus, 1},
		setting{name: "EtaPlus", value: plus},
		setting{name: "MinStep", value: low}, setting{name: "MaxStep", value: high})
	if err != nil {
		return nil, err
	}
	if !(minus > 0 && plus > 1) || math.IsInf(plus, 0) || low > high {
		return nil, errorf(ErrOption, "Rprop has EtaMinus %g, EtaPlus %g, MinStep %g and MaxStep %g; want 0 < "+
			"EtaMinus < 1 < EtaPlus and MinStep <= MaxStep", minus, plus, low, high)
	}
	if err := noWeightDecay("Rprop", groups); err != nil {
		return nil, err
	}
	step := func(b *batch) {
		former, sizes := b.states[1], b.states[2]
		b.count()
		g := b.gradient(o.Maximize, 0)
		factor := g.mul(former)
		factor.sign_()
		former.copy_(g)
		for i, f := range factor.ts {
			f.MaskedFill_(f.GtScalar(0), plus)
			f.MaskedFill_(f.LtScalar(0), minus)
			f.MaskedFill_(f.EqScalar(0), 1)
			sizes.ts[i].Mul_(f).Clamp_(low, high)
			former.ts[i].MaskedFill_(f.EqScalar(minus), 0)
		}
		b.params.addcmul_(former.each(torch.Tensor.Sign), sizes, -1)
	}
	return build(rule{
		name: "Rprop", lr: o.LearningRate(), step: step,
		states: []state{stepCount, zeros("prev"), {name: "step_size", make: func(m *member, lr float64) torch.Tensor {
			return m.Tensor.FullLike(lr)
		}}},
		options: map[string]any{"etas": []float64{minus, plus}, "step_sizes": []float64{low, high},
			"maximize": o.Maximize},
	}, o.Implementation, groups)
}

// noWeightDecay returns an error if a group has a weight decay, which the optimizer would ignore.
func noWeightDecay(optimizer string, groups []Group) error {
	for i, g := range groups {
		if optional.Or(g.WeightDecay, 0) != 0 {
			return errorf(ErrOption, "WeightDecay of group %d is %g, but %s has no weight decay; want none", i,
				*g.WeightDecay, optimizer)
		}
	}
	return nil
}
