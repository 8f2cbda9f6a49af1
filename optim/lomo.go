package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// LOMO is plain SGD that updates each parameter during the backward pass, as soon as its gradient
// is computed, and then frees the gradient: the class Lomo of lomo_optim. It has no state, and
// never more than one gradient at a time. With g the gradient, always in float32:
//
//	p -= lr * WeightDecay * p
//	p -= lr * g
//
// It is a [BackwardUpdater]. The original can also clip by the norm of all gradients, for which it
// runs the backward pass twice, and has a loss scaler for float16. Neither is supported here;
// ClipGradValue limits individual elements.
//
// Source: Lv and others, Full Parameter Fine-tuning for Large Language Models with Limited
// Resources, https://arxiv.org/abs/2306.09782.
type LOMO struct {
	LR            float64  // learning rate; zero means 1e-3
	WeightDecay   *float64 // decoupled; nil means 0
	ClipGradValue float64  // limit of each element of a gradient; zero: none
}

// AdaLOMO is [LOMO] with the means of squares of [AdafactorHF], kept as means of rows and columns:
// the class AdaLomo of lomo_optim. With g the gradient at update t, b = 1 - t^DecayRate and rms
// the root mean square:
//
//	v  = b*v + (1-b)*(g² + Eps1)         of rows and of columns where p has two dimensions or more
//	u  = g / sqrt(v)
//	u /= max(1, rms(u)/ClipThreshold)
//	l  = lr * max(Eps2, rms(p))
//	p -= l * WeightDecay * p
//	p -= l * u
//
// As in the original, the size of the weights is read as a number: on a GPU, a step waits for it.
// The original multiplies the loss by 1024 and divides the gradients by it, which changes no bits
// unless they are beyond the range of float32. It takes only parameters of one or two dimensions.
//
// Source: Lv and others, AdaLomo: Low-memory Optimization with Adaptive Learning Rate,
// https://arxiv.org/abs/2310.10195.
type AdaLOMO struct {
	LR            float64  // learning rate; zero means 1e-3
	Eps1          *float64 // added to squared gradients; nil means 1e-30
	Eps2          *float64 // lower limit of the size of weights; nil means 1e-3
	ClipThreshold *float64 // upper limit of the size of an update; nil means 1
	DecayRate     *float64 // power of t; nil means -0.8
	WeightDecay   *float64 // decoupled; nil means 0
	ClipGradValue float64  // limit of each element of a gradient; zero: none
}

// LearningRate returns LR or its default.
func (o LOMO) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// LearningRate returns LR or its default.
func (o AdaLOMO) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer and registers its hooks.
func (o LOMO) Build(groups []Group) (Optimizer, error) {
	decay := optional.Or(o.WeightDecay, 0)
	err := checkSettings("LOMO", setting{name: "LR", value: o.LearningRate()}, setting{name: "WeightDecay",
		value: decay},
		setting{name: "ClipGradValue", value: o.ClipGradValue})
	if err != nil {
		return nil, err
	}
	step := func(b *batch) {
		for i, p := range b.params.ts {
			weights := p.ToDType(torch.Float32)
			if b.weightDecay > 0 {
				weights.MulScalar_(1 - b.lr*b.weightDecay)
			}
			weights.AddScaled_(clippedFloat32(b.grads.ts[i], o.ClipGradValue), -b.lr)
			writeBack(p, weights)
		}
	}
	return layered(build(rule{name: "LOMO", lr: o.LearningRate(), weightDecay: decay, step: step,
		options: map[string]any{"clip_grad_norm": nil, "clip_grad_value": orNull(o.ClipGradValue)},
	}, DefaultImplementation, groups))
}

// clippedFloat32 returns a gradient in float32, with its elements limited to [-value, value] if
// value is positive.
func clippedFloat32(g torch.Tensor, value float64) torch.Tensor {
	g = g.ToDType(torch.Float32)
	if value > 0 {
		g = g.Clamp(-value, value)
	}
	return g
}

// writeBack copies weights to the parameter p if they are a float32 copy of it.
func writeBack(p, weights torch.Tensor) {
	if p.DType() != torch.Float32 {
		p.Copy_(weights)
	}
}

func orNull(v float64) any {
	if v == 0 {
		return nil
	}
	return v
}
