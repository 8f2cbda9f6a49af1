package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// AdamW is Adam with weight decay that is decoupled from the gradient: torch.optim.AdamW, with
// fused=True unless Implementation says otherwise. With g the gradient at update t:
//
//	p -= lr * WeightDecay * p
//	m  = Beta1*m + (1-Beta1)*g
//	v  = Beta2*v + (1-Beta2)*g²
//	p -= lr * (m / (1-Beta1^t)) / (sqrt(v / (1-Beta2^t)) + Eps)
//
// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization,
// https://arxiv.org/abs/1711.05101.
type AdamW struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients m; nil means 0.9
	Beta2       *float64 // decay of the mean of squares v; nil means 0.999
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // nil means 1e-2
	AMSGrad     bool     // divide by the largest v so far: https://openreview.net/forum?id=ryQu7f-RZ
	Maximize    bool     // maximize the objective instead of minimizing it

	// the default is [Fused]; plain torch.optim.AdamW is [ForLoop] on the CPU and [Foreach] on a
	// GPU
	Implementation Implementation
}

// Adam is torch.optim.Adam, with fused=True unless Implementation says otherwise. It computes the
// same as [AdamW], except that weight decay is added to the gradient, g += WeightDecay * p, and
// defaults to 0.
//
// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization,
// https://arxiv.org/abs/1412.6980.
type Adam struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.999
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // L2 penalty; nil means 0
	AMSGrad     bool     // divide by the largest mean of squares so far
	Maximize    bool     // maximize the objective instead of minimizing it

	// decay the weights by lr * WeightDecay, as [AdamW] does, instead of changing the gradient:
	// decoupled_weight_decay
	DecoupledDecay bool
	Implementation Implementation // the default is [Fused]
}

// NewAdamW makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [AdamW.Build] would fail.
func NewAdamW(params []torch.Named, o AdamW) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdamW", opt, err)
}

// NewAdam makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [Adam.Build] would fail.
func NewAdam(params []torch.Named, o Adam) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdam", opt, err)
}

// LearningRate returns LR or its default.
func (o AdamW) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// LearningRate returns LR or its default.
func (o Adam) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o AdamW) Build(groups []Group) (Optimizer, error) {
	return buildAdam("AdamW", groups, o, optional.Or(o.WeightDecay, 1e-2), true)
}

// Build makes the optimizer.
func (o Adam) Build(groups []Group) (Optimizer, error) {
	same := AdamW{LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, AMSGrad: o.AMSGrad, Maximize: o.Maximize,
		Implementation: o.Implementation}
	return buildAdam("Adam", groups, same, optional.Or(o.WeightDecay, 0), o.DecoupledDecay)
}

func buildAdam(name string, groups []Group, o AdamW, decay float64, decoupled bool) (Optimizer, error) {
	options := torch.FusedOptions{
		LR: o.LearningRate(), Beta1: optional.Or(o.Beta1, 0.9), Beta2: optional.Or(o.Beta2, 0.999),
		Eps:         optional.Or(o.Eps, 1e-8),
		WeightDecay: decay,
		AMSGrad:     o.AMSGrad, Maximize: o.Maximize, Decoupled: decoupled,
	}
	err := checkSettings(name, setting{name: "LR", value: options.LR}, setting{"Beta1", options.Beta1, 1},
		setting{"Beta2", options.Beta2, 1},
		setting{name: "Eps", value: options.Eps}, setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	rule := rule{
		name: name, lr: options.LR, weightDecay: decay, momentum: beta1Of(options.Beta1),
		options: map[string]any{"betas": []float64{options.Beta1, options.Beta2}, "eps": options.Eps,
			"amsgrad": o.AMSGrad, "maximize": o.Maximize, "decoupled_weight_decay": decoupled},
		states: []state{stepCount, zeros("exp_avg"), zeros("exp_avg_sq")},
		step:   func(b *batch) { adam(b, options) },
		fused: func(s *shard, set settings) {
			var largest *torch.List
			if o.AMSGrad {
				largest = s.states[3]
			}
			s.params.FusedAdam(s.states[1], s.states[2], largest, s.states[0], set.fused(options))
		},
	}
	if o.AMSGrad {
		rule.states = append(rule.states, zeros("max_exp_avg_sq"))
	}
	return build(rule, o.Implementation, groups)
}

// adam is _single_tensor_adam and _multi_tensor_adam of torch/optim/adam.py, which compute the
// same.
func adam(b *batch, o torch.FusedOptions) {
	p, m, v := b.params, b.states[1], b.states[2]
	step := b.count()
	g := b.decayed(o.Maximize, o.Decoupled)
	m.lerp_(g, 1-b.momentum)
	v.mulScalar_(o.Beta2)
	v.addcmul_(g, g, 1-o.Beta2)
	if o.AMSGrad {
		largest := b.states[3]
		largest.maximum_(v)
		v = largest
	}
	denominator := v.sqrt()
	denominator.divScalar_(math.Sqrt(1 - roundedmath.Pow(o.Beta2, step)))
	denominator.addScalar_(o.Eps)
	p.addcdiv_(m, denominator, -(b.lr / (1 - roundedmath.Pow(b.momentum, step))))
}

// fused adds the group's settings to the options of a kernel.
func (s settings) fused(o torch.FusedOptions) torch.FusedOptions {
	o.LR, o.WeightDecay, o.FirstStep = s.lr, s.weightDecay, s.firstStep
	o.Beta1, o.Momentum = s.momentum, s.momentum // each kernel reads one of the two
	o.FoundInf = s.foundInf
	return o
}
