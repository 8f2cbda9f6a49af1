package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// GaLoreAdamW is AdamW that keeps its moments at a lower rank, for weight matrices whose moments
// would not fit into memory. With P the leading singular vectors of a gradient, recomputed every
// UpdateGap updates, and g the gradient at update t:
//
//	h  = g·Pᵀ  (or Pᵀ·g)                                 only in groups with LowRank
//	m  = Beta1*m + (1-Beta1)*h
//	v  = Beta2*v + (1-Beta2)*h²
//	u  = Scale * (m / (sqrt(v) + Eps))·P  (or P·(...))
//	p -= lr * sqrt(1-Beta2^t) / (1-Beta1^t) * u
//	p -= lr * WeightDecay * p
//
// [LowRankGroups] makes the groups. Computing P waits for a GPU, every UpdateGap updates. It
// computes the same as the package galore_torch, which Hugging Face's Trainer uses, with one
// exception: if Rank is larger than the rank of the matrix, the projection is the full one, where
// galore_torch fails.
//
// [LayerWise] makes its layer-wise form, which uses and frees each gradient during the backward
// pass. [GaLoreAdamW8bit] keeps the moments in 8 bits.
//
// Source: Zhao and others, GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection,
// https://arxiv.org/abs/2403.03507.
type GaLoreAdamW struct {
	LR               float64  // learning rate; zero means 1e-3
	Beta1            *float64 // decay of the mean of gradients; nil means 0.9
	Beta2            *float64 // decay of the mean of squares; nil means 0.999
	Eps              *float64 // added to the divisor; nil means 1e-6; Hugging Face's Trainer sets 1e-8
	WeightDecay      *float64 // decoupled; nil means 0
	NoBiasCorrection bool     // correct_bias=False

	LowRank // for the groups with LowRank
}

// GaLoreAdafactor is [AdafactorHF] with its means of squares, and of updates, kept at a lower
// rank, as in [GaLoreAdamW]. Hugging Face's Trainer sets ScaleParameter and RelativeStep to false.
type GaLoreAdafactor struct {
	AdafactorHF
	LowRank // for the groups with LowRank
}

// NewGaLoreAdamW makes an optimizer for your own loop. It panics with [*torch.Error] where
// [GaLoreAdamW.Build] would fail.
func NewGaLoreAdamW(groups []Group, o GaLoreAdamW) Optimizer {
	opt, err := o.Build(groups)
	return must("optim.NewGaLoreAdamW", opt, err)
}

// NewGaLoreAdafactor makes an optimizer for your own loop. It panics with [*torch.Error]
// where [GaLoreAdafactor.Build] would fail.
func NewGaLoreAdafactor(groups []Group, o GaLoreAdafactor) Optimizer {
	opt, err := o.Build(groups)
	return must("optim.NewGaLoreAdafactor", opt, err)
}

// LearningRate returns LR or its default.
func (o GaLoreAdamW) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer. It refuses parameters of low-rank groups that are not matrices.
func (o GaLoreAdafactor) Build(groups []Group) (Optimizer, error) {
	low, err := o.LowRank.withDefaults("GaLoreAdafactor")
	if err != nil {
		return nil, err
	}
	return buildAdafactorHF("GaLoreAdafactor", o.AdafactorHF, low, groups)
}

// Build makes the optimizer. It refuses parameters of low-rank groups that are not matrices.
func (o GaLoreAdamW) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, eps, decay := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.999), optional.Or(o.Eps, 1e-6),
		optional.Or(o.WeightDecay, 0)
	err := checkSettings("GaLoreAdamW", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", beta2, 1},
		setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	low, err := o.LowRank.withDefaults("GaLoreAdamW")
	if err != nil {
		return nil, err
	}
	moment := func(name string) state {
		return state{name: name, make: func(m *member, _ float64) torch.Tensor {
			return torch.TensorOptions{DType: m.Tensor.DType(), Device: m.Tensor.Device()}.Zeros(low.shapeOf(m)...)
		}}
	}
	states := append([]state{stepCount}, low.states(func(d torch.DType) torch.DType { return d })...)
	first := len(states)
	step := func(b *batch) {
		t := b.count()
		size := b.lr
		if !o.NoBiasCorrection {
			size = size * math.Sqrt(1-roundedmath.Pow(beta2, t)) / (1 - roundedmath.Pow(b.momentum, t))
		}
		for i, p := range b.params.ts {
			m, g := b.members[i], b.grads.ts[i]
			if m.lowRank {
				g = low.project(m, g, t-1)
			}
			mean, square := m.states[first], m.states[first+1]
			mean.MulScalar_(b.momentum).AddScaled_(g, 1-b.momentum)
			torch.Call("aten::addcmul_", square.MulScalar_(beta2), g, g, 1-beta2)
			update := mean.Div(square.Sqrt().AddScalar_(eps))
			if m.lowRank {
				update = low.projectBack(m, update)
			}
			p.AddScaled_(update, -size)
			if b.weightDecay > 0 {
				p.AddScaled_(p, -b.lr*b.weightDecay)
			}
		}
	}
	return build(rule{
		name: "GaLoreAdamW", lr: o.LearningRate(), weightDecay: decay, momentum: beta1Of(beta1), step: step,
		lowRank: true, check: low.check, lowRankOptions: low.options(),
		states:  append(states, moment("exp_avg"), moment("exp_avg_sq")),
		options: map[string]any{"betas": []float64{beta1, beta2}, "eps": eps, "correct_bias": !o.NoBiasCorrection},
	}, DefaultImplementation, groups)
}
