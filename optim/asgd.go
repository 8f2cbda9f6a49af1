package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// ASGD is stochastic gradient descent that also keeps an average of the weights: torch.optim.ASGD.
// With g the gradient at update t:
//
//	g += WeightDecay * p
//	p  = (1 - Lambda*e)*p - e*g
//	a += (p - a) * u                          a = p while u is 1
//	e  = lr / (1 + Lambda*lr*t)^Alpha         for the next update; at first lr
//	u  = 1 / max(1, t-T0)
//
// The average is the state "ax" of each parameter. [Averaged] is the same idea for any optimizer.
//
// Source: Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging,
// https://doi.org/10.1137/0330046.
type ASGD struct {
	LR          float64  // learning rate; zero means 1e-2
	Lambda      *float64 // decay term, lambd; nil means 1e-4
	Alpha       *float64 // exponent of the rate's decay; nil means 0.75
	T0          *float64 // update at which averaging starts; nil means 1e6
	WeightDecay *float64 // L2 penalty; nil means 0
	Maximize    bool     // maximize the objective instead of minimizing it

	Implementation Implementation // there is no fused kernel
}

// NewASGD makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [ASGD.Build] would fail.
func NewASGD(params []torch.Named, o ASGD) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewASGD", opt, err)
}

// LearningRate returns LR or its default.
func (o ASGD) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// Build makes the optimizer.
func (o ASGD) Build(groups []Group) (Optimizer, error) {
	lambda, alpha, t0, decay := optional.Or(o.Lambda, 1e-4), optional.Or(o.Alpha, 0.75), optional.Or(o.T0, 1e6),
		optional.Or(o.WeightDecay, 0)
	err := checkSettings("ASGD", setting{name: "LR", value: o.LearningRate()}, setting{name: "Lambda", value: lambda},
		setting{name: "Alpha", value: alpha}, setting{name: "T0", value: t0}, setting{name: "WeightDecay",
			value: decay})
	if err != nil {
		return nil, err
	}
	const eta, mu = 1, 2 // indices of the states eta and mu
	step := func(b *batch) {
		p, average := b.params, b.states[3]
		t := b.count()
		g := b.gradient(o.Maximize, b.weightDecay)
		e, u := b.number(eta), b.number(mu)
		if b.foreach {
			g = g.add(p, lambda)
			p.addcmul_(g, b.constant(e), -1)
			average.addcmul_(p.sub(average), b.constant(u), 1)
			// PyTorch computes this in float32 with foreach, and in Python floats in the plain
			// loop.
			b.setNumber(eta,
				torch.Full(t).MulScalar(lambda*b.lr).AddScalar(1).PowScalar(alpha).Reciprocal().MulScalar(b.lr).Item())
		} else {
			p.mulScalar_(1 - lambda*e)
			p.add_(g, -e)
			if u != 1 {
				difference := p.sub(average)
				difference.mulScalar_(u)
				average.add_(difference, 1)
			} else {
				average.copy_(p)
			}
			b.setNumber(eta, b.lr/roundedmath.Pow(1+lambda*b.lr*t, alpha))
		}
		b.setNumber(mu, 1/math.Max(1, t-t0))
	}
	return build(rule{
		name: "ASGD", lr: o.LearningRate(), weightDecay: decay, step: step,
		states: []state{stepCount, {name: "eta", number: true, initial: func(lr float64) float64 { return lr }},
			{name: "mu", number: true, initial: func(float64) float64 { return 1 }}, zeros("ax")},
		options: map[string]any{"lambd": lambda, "alpha": alpha, "t0": t0, "maximize": o.Maximize},
	}, o.Implementation, groups)
}

// constant returns a list that repeats one number: a float32 tensor without dimensions on the
// parameters' device.
func (b *batch) constant(v float64) list {
	t := torch.TensorOptions{Device: b.params.ts[0].Device()}.Full(v)
	return b.params.each(func(torch.Tensor) torch.Tensor { return t })
}
