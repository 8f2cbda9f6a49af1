package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// NAdam is Adam with Nesterov's momentum: torch.optim.NAdam. With g the gradient at update t and
// µ(t) = Beta1 * (1 - 0.96^(t*MomentumDecay)/2):
//
//	m  = Beta1*m + (1-Beta1)*g
//	v  = Beta2*v + (1-Beta2)*g²
//	M *= µ(t)
//	d  = sqrt(v / (1-Beta2^t)) + Eps
//	p -= lr * (1-µ(t)) / (1-M) * g / d
//	p -= lr * µ(t+1) / (1-M*µ(t+1)) * m / d
//
// Source: Dozat, Incorporating Nesterov Momentum into Adam,
// https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ.
type NAdam struct {
	LR             float64  // learning rate; zero means 2e-3
	Beta1          *float64 // decay of the mean of gradients; nil means 0.9
	Beta2          *float64 // decay of the mean of squares; nil means 0.999
	Eps            *float64 // added to the divisor; nil means 1e-8
	WeightDecay    *float64 // nil means 0
	MomentumDecay  *float64 // how fast µ approaches Beta1; nil means 4e-3
	DecoupledDecay bool     // weight decay as in AdamW, not through the gradient: decoupled_weight_decay
	Maximize       bool     // maximize the objective instead of minimizing it

	Implementation Implementation // there is no fused kernel
}

// NewNAdam makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [NAdam.Build] would fail.
func NewNAdam(params []torch.Named, o NAdam) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewNAdam", opt, err)
}

// LearningRate returns LR or its default.
func (o NAdam) LearningRate() float64 { return cmp.Or(o.LR, 2e-3) }

// Build makes the optimizer.
func (o NAdam) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, eps, decay, momentumDecay := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.999),
		optional.Or(o.Eps, 1e-8),
		optional.Or(o.WeightDecay, 0), optional.Or(o.MomentumDecay, 4e-3)
	err := checkSettings("NAdam", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", beta2, 1},
		setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay}, setting{name: "MomentumDecay",
			value: momentumDecay})
	if err != nil {
		return nil, err
	}
	const product = 1 // index of the state mu_product
	step := func(b *batch) {
		p, mean, square := b.params, b.states[2], b.states[3]
		t := b.count()
		g := b.decayed(o.Maximize, o.DecoupledDecay)
		mu := b.momentum * (1 - 0.5*roundedmath.Pow(0.96, t*momentumDecay))
		next := b.momentum * (1 - 0.5*roundedmath.Pow(0.96, (t+1)*momentumDecay))
		b.setNumber(product, b.number(product)*float64(float32(mu)))
		mean.lerp_(g, 1-b.momentum)
		square.mulScalar_(beta2)
		square.addcmul_(g, g, 1-beta2)
		var denominator list
		if correction := 1 - roundedmath.Pow(beta2, t); b.foreach {
			denominator = square.sqrt()
			denominator.divScalar_(math.Sqrt(correction))
		} else {
			denominator = square.divScalar(correction)
			denominator.sqrt_()
		}
		denominator.addScalar_(eps)
		p.addcdiv_(g, denominator, -b.lr*(1-mu)/(1-b.number(product)))
		p.addcdiv_(mean, denominator, -b.lr*next/(1-b.number(product)*next))
	}
	return build(rule{
		name: "NAdam", lr: o.LearningRate(), weightDecay: decay, momentum: beta1Of(beta1), step: step,
		states: []state{stepCount, {name: "mu_product", number: true, initial: func(float64) float64 { return 1 }},
			zeros("exp_avg"), zeros("exp_avg_sq")},
		options: map[string]any{"betas": []float64{beta1, beta2}, "eps": eps, "momentum_decay": momentumDecay,
			"decoupled_weight_decay": o.DecoupledDecay, "maximize": o.Maximize},
	}, o.Implementation, groups)
}
