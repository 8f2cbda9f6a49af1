package optim

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
)

// RMSprop8bit is [RMSprop], without momentum and not centred, with its mean of squares kept in one
// byte per weight, as in [AdamW8bit]: the class of that name in bitsandbytes. There it has an
// argument momentum, which has no effect.
type RMSprop8bit struct {
	LR          float64  // learning rate; zero means 1e-2
	Alpha       *float64 // decay of the mean of squares; nil means 0.99
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // L2 penalty; nil means 0

	EightBit
}

// RMSprop32bit is [RMSprop], without momentum and not centred, in the arithmetic of bitsandbytes:
// the mean of squares is always float32, whatever the dtype of the parameters.
type RMSprop32bit struct {
	LR          float64  // learning rate; zero means 1e-2
	Alpha       *float64 // decay of the mean of squares; nil means 0.99
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // L2 penalty; nil means 0
}

// LearningRate returns LR or its default.
func (o RMSprop8bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// LearningRate returns LR or its default.
func (o RMSprop32bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// Build makes the optimizer.
func (o RMSprop8bit) Build(groups []Group) (Optimizer, error) {
	all := RMSprop32bit{o.LR, o.Alpha, o.Eps, o.WeightDecay}
	return all.build("RMSprop8bit", &o.EightBit, groups)
}

// Build makes the optimizer.
func (o RMSprop32bit) Build(groups []Group) (Optimizer, error) {
	return o.build("RMSprop32bit", nil, groups)
}

func (o RMSprop32bit) build(name string, e *EightBit, groups []Group) (Optimizer, error) {
	if o.Alpha != nil && *o.Alpha == 0 {
		return nil, errorf(ErrOption, "%s.Alpha is 0, of which there would be no mean; want 0 < Alpha < 1", name)
	}
	b := &bitsandbytes{name: name, lr: o.LearningRate(),
		beta1: optional.Or(o.Alpha, 0.99), eps: optional.Or(o.Eps, 1e-8),
		decay: optional.Or(o.WeightDecay, 0), eightBit: e, means: 1}
	b.formula = b.rmsprop
	b.options = map[string]any{"betas": []float64{b.beta1, 0}, "eps": b.eps}
	return b.build(groups)
}
