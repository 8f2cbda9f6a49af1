package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
)

// Lion8bit is [Lion] with its mean kept in one byte per weight, as in [AdamW8bit]: the class of
// that name in bitsandbytes.
type Lion8bit struct {
	LR          float64  // learning rate; zero means 1e-4
	Beta1       *float64 // weight of the mean in the step; nil means 0.9
	Beta2       *float64 // decay of the mean; nil means 0.99
	WeightDecay *float64 // decoupled; nil means 0

	EightBit
}

// Lion32bit is [Lion] in the arithmetic of bitsandbytes: the mean is always float32, whatever the
// dtype of the parameters.
type Lion32bit struct {
	LR          float64  // learning rate; zero means 1e-4
	Beta1       *float64 // weight of the mean in the step; nil means 0.9
	Beta2       *float64 // decay of the mean; nil means 0.99
	WeightDecay *float64 // decoupled; nil means 0
}

// LearningRate returns LR or its default.
func (o Lion8bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-4) }

// LearningRate returns LR or its default.
func (o Lion32bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-4) }

// Build makes the optimizer.
func (o Lion8bit) Build(groups []Group) (Optimizer, error) {
	all := Lion32bit{o.LR, o.Beta1, o.Beta2, o.WeightDecay}
	return all.bitsandbytes("Lion8bit", &o.EightBit).build(groups)
}

// Build makes the optimizer.
func (o Lion32bit) Build(groups []Group) (Optimizer, error) {
	return o.bitsandbytes("Lion32bit", nil).build(groups)
}

func (o Lion32bit) bitsandbytes(name string, e *EightBit) *bitsandbytes {
	b := &bitsandbytes{name: name, lr: o.LearningRate(),
		beta1: optional.Or(o.Beta1, 0.9), beta2: optional.Or(o.Beta2, 0.99),
		decay: optional.Or(o.WeightDecay, 0), eightBit: e, means: 1}
	b.momentum, b.formula = beta1Of(b.beta1), b.lion
	b.options = map[string]any{"betas": []float64{b.beta1, b.beta2}, "eps": 0.0}
	return b
}
