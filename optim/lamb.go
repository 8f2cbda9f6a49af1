package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// LAMB is AdamW with each parameter's update scaled to the size of its weights, for very large
// batches. With g the gradient at update t:
//
//	m  = Beta1*m + (1-Beta1)*g
//	v  = Beta2*v + (1-Beta2)*g²
//	u  = (m / (1-Beta1^t)) / (sqrt(v / (1-Beta2^t)) + Eps) + WeightDecay * p
//	p -= lr * ‖p‖/‖u‖ * u                    the ratio is 1 where one of the norms is 0
//
// As in timm's Lamb, a parameter without weight decay is updated without the ratio unless
// AlwaysAdapt is set. Use [ClipGradNorm] for timm's limit of the total gradient norm.
//
// Source: You and others, Large Batch Optimization for Deep Learning: Training BERT in 76 minutes,
// https://arxiv.org/abs/1904.00962.
type LAMB struct {
	LR               float64  // learning rate; zero means 1e-3
	Beta1            *float64 // decay of the mean of gradients; nil means 0.9
	Beta2            *float64 // decay of the mean of squares; nil means 0.999
	Eps              *float64 // added to the divisor; nil means 1e-6
	WeightDecay      *float64 // nil means 1e-2
	NoBiasCorrection bool     // omit the divisions by 1-Beta^t
	AlwaysAdapt      bool     // use the ratio for parameters without weight decay too
	TrustClip        bool     // limit the ratio to 1
	Maximize         bool     // maximize the objective instead of minimizing it
}

// NewLAMB makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [LAMB.Build] would fail.
func NewLAMB(params []torch.Named, o LAMB) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewLAMB", opt, err)
}

// LearningRate returns LR or its default.
func (o LAMB) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o LAMB) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, eps, decay := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.999), optional.Or(o.Eps, 1e-6),
		optional.Or(o.WeightDecay, 1e-2)
	err := checkSettings("LAMB", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", beta2, 1},
		setting{name: "Eps", value: eps}, setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	step := func(b *batch) {
		p, mean, square := b.params, b.states[1], b.states[2]
		t := b.count()
		g := b.gradient(o.Maximize, 0)
		mean.mulScalar_(b.momentum)
		mean.add_(g, 1-b.momentum)
		square.mulScalar_(beta2)
		square.addcmul_(g, g, 1-beta2)
		correction1, correction2 := 1.0, 1.0
		if !o.NoBiasCorrection {
			correction1, correction2 = 1-roundedmath.Pow(b.momentum, t), 1-roundedmath.Pow(beta2, t)
		}
		root := square.sqrt()
		root.divScalar_(math.Sqrt(correction2))
		root.addScalar_(eps)
		update := mean.divScalar(correction1)
		update.div_(root)
		if b.weightDecay != 0 {
			update.add_(p, b.weightDecay)
		}
		if b.weightDecay != 0 || o.AlwaysAdapt {
			update.mul_(trustRatios(p.norm(), update.norm(), o.TrustClip))
		}
		p.add_(update, -b.lr)
	}
	return build(rule{
		name: "LAMB", lr: o.LearningRate(), weightDecay: decay, momentum: beta1Of(beta1), step: step,
		states: []state{stepCount, zeros("exp_avg"), zeros("exp_avg_sq")},
		options: map[string]any{"betas": []float64{beta1, beta2}, "eps": eps, "bias_correction": !o.NoBiasCorrection,
			"always_adapt": o.AlwaysAdapt,
			"trust_clip":   o.TrustClip, "maximize": o.Maximize},
	}, DefaultImplementation, groups)
}

// trustRatios computes the trust ratios without waiting for the device.
func trustRatios(weights, updates list, clip bool) list {
	ratios := make([]torch.Tensor, len(weights.ts))
	for i, w := range weights.ts {
		u := updates.ts[i]
		one := w.OnesLike()
		r := torch.Where(w.GtScalar(0), torch.Where(u.GtScalar(0), w.Div(u), one), one)
		if clip {
			r = r.Clamp(nil, 1)
		}
		ratios[i] = r
	}
	return list{ratios, weights.operators}
}
