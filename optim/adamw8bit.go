package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
)

// AdamW8bit is [AdamW] with its two moments kept in one byte each, which takes 2 bytes per weight
// instead of 8: the class of that name in bitsandbytes.
//
// A state consists of a table of 256 numbers between -1 and 1 (between 0 and 1 for the squares),
// the index into it for each weight, and the largest absolute value of each block of 256 weights,
// by which the numbers are multiplied. On a CPU and on a GPU alike, it computes as bitsandbytes
// does on a CPU. The "paged" optimizers of bitsandbytes let states move between GPU and host.
// Their arithmetic is the same, and here they are the same optimizer.
//
// Source: Dettmers and others, 8-bit Optimizers via Block-wise Quantization,
// https://arxiv.org/abs/2110.02861.
type AdamW8bit struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.999
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // nil means 1e-2

	EightBit
}

// AdamW32bit is [AdamW] in the arithmetic of bitsandbytes, which differs in last bits: states are
// float32 whatever the parameters are.
type AdamW32bit struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.999
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // nil means 1e-2
}

// LearningRate returns LR or its default.
func (o AdamW8bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// LearningRate returns LR or its default.
func (o AdamW32bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o AdamW8bit) Build(groups []Group) (Optimizer, error) {
	all := AdamW32bit{o.LR, o.Beta1, o.Beta2, o.Eps, o.WeightDecay}
	return all.bitsandbytes("AdamW8bit", &o.EightBit).build(groups)
}

// Build makes the optimizer.
func (o AdamW32bit) Build(groups []Group) (Optimizer, error) {
	return o.bitsandbytes("AdamW32bit", nil).build(groups)
}

func (o AdamW32bit) bitsandbytes(name string, e *EightBit) *bitsandbytes {
	b := &bitsandbytes{name: name, lr: o.LearningRate(),
		beta1: optional.Or(o.Beta1, 0.9), beta2: optional.Or(o.Beta2, 0.999),
		eps: optional.Or(o.Eps, 1e-8), decay: optional.Or(o.WeightDecay, 1e-2), eightBit: e, means: 1, squares: true}
	b.momentum, b.formula = beta1Of(b.beta1), b.adam
	b.options = map[string]any{"betas": []float64{b.beta1, b.beta2}, "eps": b.eps, "alpha": 0.0, "t_alpha": nil,
		"t_beta3": nil}
	return b
}
