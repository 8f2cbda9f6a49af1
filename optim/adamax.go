package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"

	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// Adamax is Adam with the largest gradient instead of the mean of squares: torch.optim.Adamax.
// With g the gradient at update t:
//
//	g += WeightDecay * p
//	m  = Beta1*m + (1-Beta1)*g
//	u  = max(Beta2*u, |g| + Eps)
//	p -= lr / (1-Beta1^t) * m / u
//
// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, section 7.1,
// https://arxiv.org/abs/1412.6980.
type Adamax struct {
	LR          float64  // learning rate; zero means 2e-3
	Beta1       *float64 // decay of the mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the largest gradient; nil means 0.999
	Eps         *float64 // added to the gradient's absolute value; nil means 1e-8
	WeightDecay *float64 // L2 penalty; nil means 0
	Maximize    bool     // maximize the objective instead of minimizing it

	Implementation Implementation // there is no fused kernel
}

// NewAdamax makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [Adamax.Build] would fail.
func NewAdamax(params []torch.Named, o Adamax) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdamax", opt, err)
}

// LearningRate returns LR or its default.
func (o Adamax) LearningRate() float64 { return cmp.Or(o.LR, 2e-3) }

// Build makes the optimizer.
func (o Adamax) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, eps, decay := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.999), optional.Or(o.Eps, 1e-8),
		optional.Or(o.WeightDecay, 0)
	err := checkSettings("Adamax", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", beta2, 1},
		setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	step := func(b *batch) {
		mean, largest := b.states[1], b.states[2]
		t := b.count()
		g := b.gradient(o.Maximize, b.weightDecay)
		mean.lerp_(g, 1-b.momentum)
		largest.mulScalar_(beta2)
		size := g.abs()
		size.addScalar_(eps)
		largest.maximum_(size)
		b.params.addcdiv_(mean, largest, -(b.lr / (1 - roundedmath.Pow(b.momentum, t))))
	}
	return build(rule{
		name: "Adamax", lr: o.LearningRate(), weightDecay: decay, momentum: beta1Of(beta1), step: step,
		states:  []state{stepCount, zeros("exp_avg"), zeros("exp_inf")},
		options: map[string]any{"betas": []float64{beta1, beta2}, "eps": eps, "maximize": o.Maximize},
	}, o.Implementation, groups)
}
