package optim

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// SGD is stochastic gradient descent: torch.optim.SGD with fused=True. With g the gradient:
//
//	g += WeightDecay * p
//	b  = Momentum*b + (1-Dampening)*g     with momentum; b = g at the first gradient of a parameter
//	g  = b, with Nesterov g + Momentum*b
//	p -= lr * g
//
// Source: Sutskever, Martens, Dahl and Hinton, On the importance of initialization and momentum in deep learning,
// https://www.cs.toronto.edu/~hinton/absps/momentum.pdf; PyTorch puts the rate outside of the momentum, unlike that paper.
type SGD struct {
	LR          float64  // learning rate; zero means 1e-3
	Momentum    float64  // part of the former direction that is kept
	Dampening   float64  // part of the gradient that does not enter the momentum
	WeightDecay *float64 // L2 penalty; nil means 0
	Nesterov    bool     // look ahead along the momentum; needs Momentum, and no Dampening
	Maximize    bool     // let the loss rise
}

// NewSGD makes an optimizer of one group for a loop of one's own. It panics with [*torch.Error] where [SGD.Build] would fail.
func NewSGD(params []torch.Named, o SGD) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewSGD", opt, err)
}

// LearningRate is LR or its default.
func (o SGD) LearningRate() float64 { return orDefaultLR(o.LR) }

// Build makes the optimizer.
func (o SGD) Build(groups []Group) (Optimizer, error) {
	fused := torch.FusedOptions{
		LR: o.LearningRate(), Momentum: o.Momentum, Dampening: o.Dampening, WeightDecay: or(o.WeightDecay, 0),
		Nesterov: o.Nesterov, Maximize: o.Maximize,
	}
	err := checkSettings("SGD", setting{name: "LR", value: fused.LR}, setting{name: "Momentum", value: o.Momentum},
		setting{name: "WeightDecay", value: fused.WeightDecay})
	if err != nil {
		return nil, err
	}
	if math.IsNaN(o.Dampening) || math.IsInf(o.Dampening, 0) {
		return nil, mistakef(ErrOption, "SGD.Dampening is %g; want a finite number", o.Dampening)
	}
	if o.Nesterov && (o.Momentum == 0 || o.Dampening != 0) {
		return nil, mistakef(ErrOption, "SGD.Nesterov is set with Momentum %g and Dampening %g; want a momentum, and no dampening", o.Momentum, o.Dampening)
	}
	rule := rule{name: "SGD", options: fused}
	if o.Momentum == 0 {
		rule.step = func(params *torch.List, _ []*torch.List, o torch.FusedOptions) { params.FusedSGD(nil, o) }
	} else {
		rule.states = []state{{"momentum_buffer", torch.Tensor.EmptyLike}} // the first step fills it
		rule.firstStep = true
		rule.step = func(params *torch.List, states []*torch.List, o torch.FusedOptions) { params.FusedSGD(states[0], o) }
	}
	return build(rule, groups)
}
