package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// SGD is stochastic gradient descent: torch.optim.SGD, with fused=True unless Implementation says
// otherwise. With g the gradient:
//
//	g += WeightDecay * p
//	b  = Momentum*b + (1-Dampening)*g     with momentum; b = g at the first gradient of a parameter
//	g  = b, with Nesterov g + Momentum*b
//	p -= lr * g
//
// Source: Sutskever, Martens, Dahl and Hinton, On the importance of initialization and momentum in
// deep learning, https://www.cs.toronto.edu/~hinton/absps/momentum.pdf. Unlike that paper, PyTorch
// applies the rate outside of the momentum.
type SGD struct {
	LR          float64  // learning rate; zero means 1e-3
	Momentum    float64  // fraction of the previous direction that is kept
	Dampening   float64  // fraction of the gradient that does not enter the momentum
	WeightDecay *float64 // L2 penalty; nil means 0
	Nesterov    bool     // look ahead along the momentum; needs Momentum, and no Dampening
	Maximize    bool     // maximize the objective instead of minimizing it

	Implementation Implementation // the default is [Fused]
}

// NewSGD makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [SGD.Build] would fail.
func NewSGD(params []torch.Named, o SGD) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewSGD", opt, err)
}

// LearningRate returns LR or its default.
func (o SGD) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o SGD) Build(groups []Group) (Optimizer, error) {
	fused := torch.FusedOptions{
		LR: o.LearningRate(), Momentum: o.Momentum, Dampening: o.Dampening, WeightDecay: optional.Or(o.WeightDecay, 0),
		Nesterov: o.Nesterov, Maximize: o.Maximize,
	}
	err := checkSettings("SGD", setting{name: "LR", value: fused.LR}, setting{name: "Momentum", value: o.Momentum},
		setting{name: "WeightDecay", value: fused.WeightDecay})
	if err != nil {
		return nil, err
	}
	if math.IsNaN(o.Dampening) || math.IsInf(o.Dampening, 0) {
		return nil, errorf(ErrOption, "SGD.Dampening is %g; want a finite number", o.Dampening)
	}
	if o.Nesterov && (o.Momentum == 0 || o.Dampening != 0) {
		return nil, errorf(ErrOption, "SGD.Nesterov is set with Momentum %g and Dampening %g; want a momentum, and "+
			"no dampening", o.Momentum, o.Dampening)
	}
	rule := rule{
		name: "SGD", lr: fused.LR, weightDecay: fused.WeightDecay,
		options: map[string]any{"momentum": o.Momentum, "dampening": o.Dampening, "nesterov": o.Nesterov,
			"maximize": o.Maximize},
		momentum: momentumOf(o.Momentum).withBuffer(addMomentumBuffer),
		step:     func(b *batch) { sgd(b, o) },
		fused: func(s *shard, set settings) {
			var buffers *torch.List
			if set.momentum != 0 {
				buffers = s.states[0]
			}
			s.params.FusedSGD(buffers, set.fused(fused))
		},
	}
	if o.Momentum == 0 && fused.WeightDecay == 0 && o.Implementation != DefaultImplementation &&
		o.Implementation != Fused {
		rule.gradients = anyGradients
	}
	if o.Momentum != 0 {
		addMomentumBuffer(&rule)
	}
	return build(rule, o.Implementation, groups)
}

// addMomentumBuffer adds the momentum buffer as a state, which the first step fills.
func addMomentumBuffer(r *rule) {
	r.states = []state{{name: "momentum_buffer", make: func(m *member, _ float64) torch.Tensor {
		return m.Tensor.EmptyLike()
	}}}
	r.firstStep = true
	r.gradients = onlyDense
}

// sgd is _single_tensor_sgd and _multi_tensor_sgd of torch/optim/sgd.py, which compute the same.
func sgd(b *batch, o SGD) {
	g := b.gradient(o.Maximize, b.weightDecay)
	if b.momentum != 0 {
		buffer := b.states[0]
		if b.firstStep {
			buffer.copy_(g)
		} else {
			buffer.mulScalar_(b.momentum)
			buffer.add_(g, 1-o.Dampening)
		}
		if o.Nesterov {
			g = g.add(buffer, b.momentum)
		} else {
			g = buffer
		}
	}
	b.params.add_(g, -b.lr)
}
