package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// GrokAdamW is [AdamW] that amplifies the slow part of the gradients: the class of that name in
// the package grokadamw. Let g be the gradient at update t, with its norm limited to
// GradientClipping, i the index of the parameter among those of its group that have a gradient,
// and s the grokking signal:
//
//	a  = AlphaInit * exp(-GrokkingSignalDecayRate * s)
//	e  = a*e + (1-a)*g
//	h  = g + Lamb * e
//	b  = Beta1 * (1-Gamma)^i
//	m  = b*m + (1-b)*h
//	v  = Beta2*v + (1-Beta2)*h²
//	p -= lr * WeightDecay * p
//	p -= lr * sqrt(1-Beta2^t) / (1-Beta1^t) * m / (sqrt(v) + Eps)
//
// The order of the parameters thus matters. The gradients are clipped in place. The original keeps
// its states on the host and in its groups, and cannot load them from there; here they are kept
// with their parameters and are loaded like any other state.
//
// Source: https://github.com/cognitivecomputations/grokadamw; Lee and others, Grokfast,
// https://arxiv.org/abs/2405.20233.
type GrokAdamW struct {
	LR                      float64  // learning rate; zero means 1e-3
	Beta1                   *float64 // decay of the mean of gradients of the first parameter; nil means 0.9
	Beta2                   *float64 // decay of the mean of squares; nil means 0.999
	Eps                     *float64 // added to the divisor; nil means 1e-8
	WeightDecay             *float64 // nil means 1e-2
	AlphaInit               *float64 // decay of the slow part if there is no signal; nil means 0.98
	Lamb                    *float64 // weight of the slow part; nil means 2
	Gamma                   *float64 // how much faster the mean of each following parameter decays; nil means 0.1
	GrokkingSignalDecayRate *float64 // nil means 0.1
	GradientClipping        *float64 // upper limit of the norm of each gradient, zero: none; nil means 1

	// GrokkingSignal returns how far the model is from generalising, such as the fraction by which
	// the evaluation loss exceeds the training loss. Nil means a signal of 0. It is called once
	// per group and update. In the original, grokking_signal_fns, the signal is the mean of
	// several functions.
	GrokkingSignal func() float64 `json:"-"`
}

// LearningRate returns LR or its default.
func (o GrokAdamW) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// grokAdamW is GrokAdamW with the defaults filled in.
type grokAdamW struct {
	beta2, eps, alpha, lamb, gamma, rate, clip float64

	signal    func() float64
	slow      float64         // decay of the slow part in this update
	positions map[*member]int // positions of the group's parameters that have a gradient
}

// Build makes the optimizer.
func (o GrokAdamW) Build(groups []Group) (Optimizer, error) {
	beta1, decay := optional.Or(o.Beta1, 0.9), optional.Or(o.WeightDecay, 1e-2)
	f := &grokAdamW{beta2: optional.Or(o.Beta2, 0.999), eps: optional.Or(o.Eps, 1e-8),
		alpha: optional.Or(o.AlphaInit, 0.98), lamb: optional.Or(o.Lamb, 2),
		gamma: optional.Or(o.Gamma, 0.1), rate: optional.Or(o.GrokkingSignalDecayRate, 0.1),
		clip:   optional.Or(o.GradientClipping, 1),
		signal: o.GrokkingSignal}
	err := checkSettings("GrokAdamW", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", f.beta2, 1}, setting{name: "Eps", value: f.eps}, setting{name: "WeightDecay", value: decay},
		setting{name: "AlphaInit", value: f.alpha}, setting{name: "Lamb", value: f.lamb}, setting{"Gamma", f.gamma, 1},
		setting{name: "GrokkingSignalDecayRate", value: f.rate}, setting{name: "GradientClipping", value: f.clip})
	if err != nil {
		return nil, err
	}
	if f.alpha > 1 {
		return nil, errorf(ErrOption, "GrokAdamW.AlphaInit is %g; want at most 1", f.alpha)
	}
	return build(rule{
		name: "GrokAdamW", lr: o.LearningRate(), weightDecay: decay, momentum: beta1Of(beta1), coupled: true,
		states: []state{stepCount, zeros("exp_avg"), zeros("exp_avg_sq"), zeros("grok_ema")},
		begin:  f.begin, step: f.step,
		options: map[string]any{"betas": []float64{beta1, f.beta2}, "eps": f.eps, "alpha_init": f.alpha, "lamb": f.lamb,
			"gamma": f.gamma, "grokking_signal_fns": nil, "grokking_signal_decay_rate": f.rate,
			"gradient_clipping": f.clip},
	}, DefaultImplementation, groups)
}

func (f *grokAdamW) begin(g *group, _ float64) {
	signal := 0.0
	if f.signal != nil {
		signal = f.signal()
	}
	f.slow = f.alpha * math.Exp(-f.rate*signal)
	f.positions = map[*member]int{}
	torch.Scope(func() {
		for _, m := range g.members {
			if m.Tensor.Grad().Defined() {
				f.positions[m] = len(f.positions)
			}
		}
	})
}

func (f *grokAdamW) step(b *batch) {
	t := b.count()
	size := b.lr * math.Sqrt(1-roundedmath.Pow(f.beta2, t)) / (1 - roundedmath.Pow(b.momentum, t))
	for i, m := range b.members {
		if f.clip > 0 {
			torch.NewList(m.Tensor).ClipGradNorm(f.clip, 2)
		}
		g, mean, square, slow := b.grads.at(i), b.states[1].at(i), b.states[2].at(i), b.states[3].at(i)
		beta1 := b.momentum * roundedmath.Pow(1-f.gamma, float64(f.positions[m]))
		slow.mulScalar_(f.slow)
		slow.add_(g, 1-f.slow)
		h := g.add(slow.mulScalar(f.lamb), 1)
		mean.mulScalar_(beta1)
		mean.add_(h, 1-beta1)
		square.mulScalar_(f.beta2)
		square.addcmul_(h, h, 1-f.beta2)
		p := b.params.at(i)
		p.mulScalar_(1 - b.lr*b.weightDecay)
		root := square.sqrt()
		root.addScalar_(f.eps)
		p.addcdiv_(mean, root, -size)
	}
}
