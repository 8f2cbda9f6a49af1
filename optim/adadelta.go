package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// Adadelta derives the size of its steps from the sizes of previous ones: torch.optim.Adadelta.
// With g the gradient:
//
//	g += WeightDecay * p
//	v  = Rho*v + (1-Rho)*g²
//	d  = sqrt(u + Eps) / sqrt(v + Eps) * g
//	u  = Rho*u + (1-Rho)*d²
//	p -= lr * d
//
// Source: Zeiler, ADADELTA: An Adaptive Learning Rate Method, https://arxiv.org/abs/1212.5701.
type Adadelta struct {
	LR          float64  // factor of the step; zero means 1
	Rho         *float64 // decay of the means of squares, at most 1; nil means 0.9
	Eps         *float64 // added inside the roots; nil means 1e-6
	WeightDecay *float64 // L2 penalty; nil means 0
	Maximize    bool     // maximize the objective instead of minimizing it

	Implementation Implementation // there is no fused kernel
}

// NewAdadelta makes an optimizer with one group, for your own loop. It panics with
// [*torch.Error] where [Adadelta.Build] would fail.
func NewAdadelta(params []torch.Named, o Adadelta) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdadelta", opt, err)
}

// LearningRate returns LR or its default.
func (o Adadelta) LearningRate() float64 { return cmp.Or(o.LR, 1) }

// Build makes the optimizer.
func (o Adadelta) Build(groups []Group) (Optimizer, error) {
	rho, eps, decay := optional.Or(o.Rho, 0.9), optional.Or(o.Eps, 1e-6), optional.Or(o.WeightDecay, 0)
	err := checkSettings("Adadelta", setting{name: "LR", value: o.LearningRate()}, setting{name: "Rho", value: rho},
		setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	if rho > 1 {
		return nil, errorf(ErrOption, "Adadelta.Rho is %g; want 0 <= Rho <= 1", rho)
	}
	step := func(b *batch) {
		square, steps := b.states[1], b.states[2]
		b.count()
		g := b.gradient(o.Maximize, b.weightDecay)
		square.mulScalar_(rho)
		square.addcmul_(g, g, 1-rho)
		root := square.addScalar(eps)
		root.sqrt_()
		delta := steps.addScalar(eps)
		delta.sqrt_()
		delta.div_(root)
		delta.mul_(g)
		steps.mulScalar_(rho)
		steps.addcmul_(delta, delta, 1-rho)
		b.params.add_(delta, -b.lr)
	}
	return build(rule{
		name: "Adadelta", lr: o.LearningRate(), weightDecay: decay, step: step,
		states:  []state{stepCount, zeros("square_avg"), zeros("acc_delta")},
		options: map[string]any{"rho": rho, "eps": eps, "maximize": o.Maximize},
	}, o.Implementation, groups)
}
