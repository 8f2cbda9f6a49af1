package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// StableAdamW is [AdamW] that reduces the rate, parameter by parameter, if the mean of squares
// lags behind the gradients: the class of that name in torch-optimi. With g the gradient at update
// t and b = (Beta^t - Beta) / (Beta^t - 1) for each beta, which is its bias correction:
//
//	m  = b1*m + (1-b1)*g
//	v  = b2*v + (1-b2)*g²
//	l  = lr / max(1, sqrt(mean(g² / max(v, Eps²))))
//	p -= l * WeightDecay * p                          with DecoupleLR l / MaxLR * WeightDecay * p
//	p -= l * m / (sqrt(v) + Eps)
//
// float16 and bfloat16 parameters are summed with Kahan's compensation, and their gradients are
// overwritten. As in the original, the size of each parameter's update is read as a number: on a
// GPU, a step waits for it.
//
// Source: Wortsman and others, Stable and low-precision training for large-scale vision-language
// models, https://arxiv.org/abs/2304.13013.
type StableAdamW struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.99
	Eps         *float64 // added to the divisor; nil means 1e-6
	WeightDecay *float64 // nil means 1e-2
	DecoupleLR  bool     // the decay does not shrink with the rate: decouple_lr
	MaxLR       float64  // the initial rate of a schedule, for DecoupleLR; zero means LR
	KahanSum    *bool    // compensated sums for float16 and bfloat16; nil means true
}

// LearningRate returns LR or its default.
func (o StableAdamW) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o StableAdamW) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, eps, decay := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.99), optional.Or(o.Eps, 1e-6),
		optional.Or(o.WeightDecay, 1e-2)
	err := checkSettings("StableAdamW", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", beta2, 1}, setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay},
		setting{name: "MaxLR", value: o.MaxLR})
	if err != nil {
		return nil, err
	}
	if o.MaxLR != 0 && !o.DecoupleLR {
		return nil, errorf(ErrOption, "StableAdamW.MaxLR is %g, but only DecoupleLR looks at it; set that or leave "+
			"it "+
			"out", o.MaxLR)
	}
	o.MaxLR = cmp.Or(o.MaxLR, o.LearningRate())
	kahan := func(d torch.DType) bool { return wide(d) != d && (o.KahanSum == nil || *o.KahanSum) }
	states := []state{
		zeros("exp_avg"), zeros("exp_avg_sq"),
		{name: "eps_sq", make: func(m *member, _ float64) torch.Tensor {
			return torch.TensorOptions{DType: m.Tensor.DType(), Device: m.Tensor.Device()}.Full(roundedmath.Pow(eps, 2))
		}},
		{name: "kahan_comp", make: func(m *member, _ float64) torch.Tensor {
			if !kahan(m.Tensor.DType()) {
				return torch.Tensor{}
			}
			return m.Tensor.ZerosLike()
		}},
	}
	step := func(b *batch) {
		t := b.group.numbers[0]
		mean, square := b.states[0], b.states[1]
		mean.lerp_(b.grads, 1-debiased(b.momentum, t))
		square.mulScalar_(debiased(beta2, t))
		square.addcmul_(b.grads, b.grads, 1-debiased(beta2, t))
		for i := range b.params.ts {
			o.move(b, i, eps)
		}
	}
	maxLR := any(nil)
	if o.DecoupleLR {
		maxLR = o.MaxLR
	}
	return build(rule{
		name: "StableAdamW", lr: o.LearningRate(), weightDecay: decay, states: states, step: step,
		momentum:    &momentum{key: "beta1", value: beta1},
		groupStates: []groupState{{name: "step", kind: intEntry}},
		begin:       func(g *group, _ float64) { g.numbers[0]++ },
		options: map[string]any{"beta1": beta1, "beta2": beta2, "eps": eps, "decouple_lr": o.DecoupleLR,
			"max_lr": maxLR, "kahan_sum": o.KahanSum, "triton": false, "gradient_release": false, "setup": true},
	}, DefaultImplementation, groups)
}

// debiased returns a beta that includes Adam's bias correction.
func debiased(beta, t float64) float64 {
	power := roundedmath.Pow(beta, t)
	return (power - beta) / (power - 1)
}

// move updates the i-th parameter of the batch.
func (o StableAdamW) move(b *batch, i int, eps float64) {
	p, g, mean, square := b.params.at(i), b.grads.at(i), b.states[0].at(i), b.states[1].at(i)
	states := b.members[i].states
	ratio := g.ts[0].PowScalar(2).Div_(square.ts[0].Maximum(states[2]))
	lr := b.lr / math.Max(1, torch.Call("aten::mean", ratio, nil)[0].Sqrt().Item())
	if b.weightDecay != 0 {
		decay := float64(lr * b.weightDecay)
		if o.DecoupleLR {
			decay = float64(lr / o.MaxLR * b.weightDecay)
		}
		p.mulScalar_(1 - decay)
	}
	root := square.sqrt()
	root.addScalar_(eps)
	if !states[3].Defined() {
		p.addcdiv_(mean, root, -lr)
		return
	}
	rest := b.states[3].at(i)
	rest.addcdiv_(mean, root, -lr)
	g.copy_(p)
	p.add_(rest, 1)
	g.sub_(p, 1)
	rest.add_(g, 1)
}
