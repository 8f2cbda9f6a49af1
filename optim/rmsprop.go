package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// RMSprop divides by the root of the mean of squared gradients: torch.optim.RMSprop. With g the
// gradient:
//
//	g += WeightDecay * p
//	v  = Alpha*v + (1-Alpha)*g²
//	a  = Alpha*a + (1-Alpha)*g            if Centered
//	d  = sqrt(v) + Eps                    with Centered sqrt(v - a²) + Eps
//	b  = Momentum*b + g/d                 without momentum b = g/d
//	p -= lr * b
//
// Source: Hinton's lecture,
// https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf; centred: Graves,
// Generating Sequences With Recurrent Neural Networks, https://arxiv.org/abs/1308.0850.
type RMSprop struct {
	LR          float64  // learning rate; zero means 1e-2
	Alpha       *float64 // decay of the mean of squares; nil means 0.99
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // L2 penalty; nil means 0
	Momentum    float64  // fraction of the previous direction that is kept
	Centered    bool     // divide by the gradients' standard deviation
	Maximize    bool     // maximize the objective instead of minimizing it

	Implementation Implementation // there is no fused kernel
}

// NewRMSprop makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [RMSprop.Build] would fail.
func NewRMSprop(params []torch.Named, o RMSprop) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewRMSprop", opt, err)
}

// LearningRate returns LR or its default.
func (o RMSprop) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// Build makes the optimizer.
func (o RMSprop) Build(groups []Group) (Optimizer, error) {
	alpha, eps, decay := optional.Or(o.Alpha, 0.99), optional.Or(o.Eps, 1e-8), optional.Or(o.WeightDecay, 0)
	err := checkSettings("RMSprop", setting{name: "LR", value: o.LearningRate()}, setting{name: "Alpha", value: alpha},
		setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay}, setting{name: "Momentum",
			value: o.Momentum})
	if err != nil {
		return nil, err
	}
	states := []state{stepCount, zeros("square_avg")}
	if o.Centered {
		states = append(states, zeros("grad_avg"))
	}
	buffered := len(states)
	if o.Momentum > 0 {
		states = append(states, zeros("momentum_buffer"))
	}
	step := func(b *batch) {
		square := b.states[1]
		b.count()
		g := b.gradient(o.Maximize, b.weightDecay)
		square.mulScalar_(alpha)
		square.addcmul_(g, g, 1-alpha)
		var root list
		if o.Centered {
			mean := b.states[2]
			mean.lerp_(g, 1-alpha)
			root = square.addcmul(mean, mean, -1)
			root.sqrt_()
		} else {
			root = square.sqrt()
		}
		root.addScalar_(eps)
		if b.momentum > 0 {
			buffer := b.states[buffered]
			buffer.mulScalar_(b.momentum)
			buffer.addcdiv_(g, root, 1)
			b.params.add_(buffer, -b.lr)
		} else {
			b.params.addcdiv_(g, root, -b.lr)
		}
	}
	return build(rule{
		name: "RMSprop", lr: o.LearningRate(), weightDecay: decay, step: step, states: states,
		momentum: momentumOf(o.Momentum).withBuffer(func(r *rule) {
			r.states = append(r.states, zeros("momentum_buffer"))
		}),
		options: map[string]any{"alpha": alpha, "eps": eps, "momentum": o.Momentum, "centered": o.Centered,
			"maximize": o.Maximize},
	}, o.Implementation, groups)
}
