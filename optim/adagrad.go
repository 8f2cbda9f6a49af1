package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// Adagrad divides by the root of the sum of all squared gradients: torch.optim.Adagrad. With g the
// gradient at update t:
//
//	g += WeightDecay * p
//	s += g²                                              s starts at InitialAccumulator
//	p -= lr / (1 + (t-1)*LRDecay) * g / (sqrt(s) + Eps)
//
// As in PyTorch, an optimizer before its first step, and a parameter without a gradient, have the
// initial sum as their state. On the CPU the default is the fused kernel (fused=True). On a GPU
// there is none, and the default is foreach.
//
// Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods,
// https://jmlr.org/papers/v12/duchi11a.html.
type Adagrad struct {
	LR                 float64  // learning rate; zero means 1e-2
	LRDecay            float64  // how fast the rate falls with a parameter's updates
	WeightDecay        *float64 // L2 penalty; nil means 0
	InitialAccumulator float64  // initial_accumulator_value
	Eps                *float64 // added to the divisor; nil means 1e-10
	Maximize           bool     // maximize the objective instead of minimizing it

	Implementation Implementation // the default is [Fused] if all parameters are on the CPU
}

// NewAdagrad makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [Adagrad.Build] would fail.
func NewAdagrad(params []torch.Named, o Adagrad) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdagrad", opt, err)
}

// LearningRate returns LR or its default.
func (o Adagrad) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// Build makes the optimizer.
func (o Adagrad) Build(groups []Group) (Optimizer, error) {
	eps, decay := optional.Or(o.Eps, 1e-10), optional.Or(o.WeightDecay, 0)
	err := checkSettings("Adagrad", setting{name: "LR", value: o.LearningRate()}, setting{name: "LRDecay",
		value: o.LRDecay},
		setting{name: "WeightDecay", value: decay}, setting{name: "InitialAccumulator", value: o.InitialAccumulator},
		setting{name: "Eps", value: eps})
	if err != nil {
		return nil, err
	}
	step := func(b *batch) {
		sum := b.states[1]
		t := b.count()
		g := b.gradient(o.Maximize, b.weightDecay)
		rate := b.lr / (1 + (t-1)*o.LRDecay)
		sum.addcmul_(g, g, 1)
		root := sum.sqrt()
		root.addScalar_(eps)
		switch {
		case !b.foreach:
			b.params.addcdiv_(g, root, -rate)
		// g is a copy here, and an in-place product rounds the rate to the dtype of g first.
		case o.Maximize || b.weightDecay != 0:
			g.mulScalar_(-rate)
			b.params.addcdiv_(g, root, 1)
		default:
			b.params.addcdiv_(g.mulScalar(-rate), root, 1)
		}
	}
	return build(rule{
		name: "Adagrad", lr: o.LearningRate(), weightDecay: decay, step: step, fusedOnCPU: true, stateAtOnce: true,
		fused: func(s *shard, set settings) {
			s.params.FusedAdagrad(s.states[1], s.states[0], set.fused(torch.FusedOptions{Eps: eps, LRDecay: o.LRDecay,
				Maximize: o.Maximize}))
		},
		states: []state{stepCount, {name: "sum", make: func(m *member, _ float64) torch.Tensor {
			return m.Tensor.FullLike(o.InitialAccumulator)
		}}},
		options: map[string]any{"lr_decay": o.LRDecay, "eps": eps, "initial_accumulator_value": o.InitialAccumulator,
			"maximize": o.Maximize},
	}, o.Implementation, groups)
}
