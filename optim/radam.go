package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// RAdam is Adam that does not divide by the mean of squares until it is known accurately enough:
// torch.optim.RAdam. With g the gradient at update t, R = 2/(1-Beta2) - 1 and r(t) = R -
// 2t*Beta2^t/(1-Beta2^t):
//
//	m  = Beta1*m + (1-Beta1)*g
//	v  = Beta2*v + (1-Beta2)*g²
//	f  = sqrt((r-4)*(r-2)*R / ((R-4)*(R-2)*r)) * sqrt(1-Beta2^t) / (sqrt(v) + Eps)   if r > 5, else 1
//	p -= lr * f * m / (1-Beta1^t)
//
// Source: Liu and others, On the Variance of the Adaptive Learning Rate and Beyond,
// https://arxiv.org/abs/1908.03265.
type RAdam struct {
	LR             float64  // learning rate; zero means 1e-3
	Beta1          *float64 // decay of the mean of gradients; nil means 0.9
	Beta2          *float64 // decay of the mean of squares; nil means 0.999
	Eps            *float64 // added to the divisor; nil means 1e-8
	WeightDecay    *float64 // nil means 0
	DecoupledDecay bool     // weight decay as in AdamW, not through the gradient: decoupled_weight_decay
	Maximize       bool     // maximize the objective instead of minimizing it

	Implementation Implementation // there is no fused kernel
}

// NewRAdam makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [RAdam.Build] would fail.
func NewRAdam(params []torch.Named, o RAdam) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewRAdam", opt, err)
}

// LearningRate returns LR or its default.
func (o RAdam) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o RAdam) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, eps, decay := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.999), optional.Or(o.Eps, 1e-8),
		optional.Or(o.WeightDecay, 0)
	err := checkSettings("RAdam", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", beta2, 1},
		setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	limit := 2/(1-beta2) - 1
	step := func(b *batch) {
		mean, square := b.states[1], b.states[2]
		t := b.count()
		g := b.decayed(o.Maximize, o.DecoupledDecay)
		mean.lerp_(g, 1-b.momentum)
		square.mulScalar_(beta2)
		square.addcmul_(g, g, 1-beta2)
		power := roundedmath.Pow(beta2, t)
		correction1, correction2 := 1-roundedmath.Pow(b.momentum, t), 1-power
		length := limit - 2*t*power/correction2
		rectifier, plain := 0.0, 1.0
		if length > 5 {
			rectifier, plain = math.Sqrt((length-4)*(length-2)*limit/((limit-4)*(limit-2)*length)), 0
		}
		if b.foreach { // with foreach, one formula covers both sides of the limit
			factor := square.sqrt()
			factor.addScalar_(eps)
			factor.divScalar_(-(math.Sqrt(correction2) * (b.lr * rectifier / correction1)))
			factor.reciprocal_()
			factor.addScalar_(-(b.lr * plain / correction1))
			b.params.addcmul_(mean, factor, 1)
			return
		}
		update := mean.divScalar(correction1)
		update.mulScalar_(b.lr)
		if length > 5 {
			adaptive := square.sqrt()
			adaptive.addScalar_(eps)
			adaptive.reciprocal_()
			adaptive.mulScalar_(math.Sqrt(correction2))
			update.mul_(adaptive)
			update.mulScalar_(rectifier)
		}
		b.params.add_(update, -1)
	}
	return build(rule{
		name: "RAdam", lr: o.LearningRate(), weightDecay: decay, momentum: beta1Of(beta1), step: step,
		states: []state{stepCount, zeros("exp_avg"), zeros("exp_avg_sq")},
		options: map[string]any{"betas": []float64{beta1, beta2}, "eps": eps,
			"decoupled_weight_decay": o.DecoupledDecay, "maximize": o.Maximize},
	}, o.Implementation, groups)
}
