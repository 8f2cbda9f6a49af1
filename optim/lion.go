package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// Lion moves every weight by the same amount, in the direction of a mean of gradients. With g the
// gradient:
//
//	p -= lr * WeightDecay * p
//	p -= lr * sign(Beta1*m + (1-Beta1)*g)
//	m  = Beta2*m + (1-Beta2)*g
//
// It needs a rate 3 to 10 times smaller than AdamW's, and a weight decay larger by the same
// factor. It is the optimizer of the package lion-pytorch.
//
// Source: Chen and others, Symbolic Discovery of Optimization Algorithms,
// https://arxiv.org/abs/2302.06675.
type Lion struct {
	LR          float64  // learning rate; zero means 1e-4
	Beta1       *float64 // weight of the mean in the step; nil means 0.9
	Beta2       *float64 // decay of the mean; nil means 0.99
	WeightDecay *float64 // decoupled; nil means 0
	Maximize    bool     // maximize the objective instead of minimizing it
}

// NewLion makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [Lion.Build] would fail.
func NewLion(params []torch.Named, o Lion) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewLion", opt, err)
}

// LearningRate returns LR or its default.
func (o Lion) LearningRate() float64 { return cmp.Or(o.LR, 1e-4) }

// Build makes the optimizer.
func (o Lion) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, decay := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.99), optional.Or(o.WeightDecay, 0)
	err := checkSettings("Lion", setting{name: "LR", value: o.LearningRate()}, setting{name: "Beta1", value: beta1},
		setting{name: "Beta2", value: beta2},
		setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	if beta1 > 1 || beta2 > 1 {
		return nil, errorf(ErrOption, "Lion has Beta1 %g and Beta2 %g; want both at most 1", beta1, beta2)
	}
	step := func(b *batch) {
		mean := b.states[0]
		g := b.decayed(o.Maximize, true)
		direction := mean.mulScalar(b.momentum)
		direction.add_(g, 1-b.momentum)
		direction.sign_()
		b.params.add_(direction, -b.lr)
		mean.mulScalar_(beta2)
		mean.add_(g, 1-beta2)
	}
	return build(rule{
		name: "Lion", lr: o.LearningRate(), weightDecay: decay, momentum: beta1Of(beta1), step: step,
		states:  []state{zeros("exp_avg")},
		options: map[string]any{"betas": []float64{beta1, beta2}, "maximize": o.Maximize},
	}, DefaultImplementation, groups)
}
