package optim

import (
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// Build makes the optimizer and registers its hooks.
func (o AdaLOMO) Build(groups []Group) (Optimizer, error) {
	f := &adafactorHF{eps1: optional.Or(o.Eps1, 1e-30), eps2: optional.Or(o.Eps2, 1e-3),
		limit: optional.Or(o.ClipThreshold, 1),
		power: optional.Or(o.DecayRate, -0.8)}
	decay := optional.Or(o.WeightDecay, 0)
	err := checkSettings("AdaLOMO", setting{name: "LR", value: o.LearningRate()}, setting{name: "Eps1", value: f.eps1},
		setting{name: "Eps2", value: f.eps2}, setting{name: "ClipThreshold", value: f.limit},
		setting{name: "WeightDecay", value: decay}, setting{name: "ClipGradValue", value: o.ClipGradValue})
	switch {
	case err != nil:
		return nil, err
	case f.limit == 0:
		return nil, errorf(ErrOption, "AdaLOMO.ClipThreshold is 0; want a positive number")
	case math.IsNaN(f.power) || math.IsInf(f.power, 0):
		return nil, errorf(ErrOption, "AdaLOMO.DecayRate is %g; want a finite number", f.power)
	}
	step := func(b *batch) {
		beta := 1 - roundedmath.Pow(b.group.numbers[0], f.power)
		for i, p := range b.params.ts {
			update := f.direction(b.members[i], clippedFloat32(b.grads.ts[i], o.ClipGradValue), beta)
			update.Div_(rootMeanSquare(update).DivScalar(f.limit).Clamp(1.0, nil))
			weights := p.ToDType(torch.Float32)
			size := scalar{rootMeanSquare(weights).Item(), float32Tensor}
			lr := num(b.lr).times(most(num(f.eps2), size))
			if b.weightDecay > 0 {
				weights.MulScalar_(num(1).minus(lr.times(num(b.weightDecay))).v)
			}
			weights.AddScaled_(update, -lr.v)
			writeBack(p, weights)
		}
	}
	return layered(build(rule{name: "AdaLOMO", lr: o.LearningRate(), weightDecay: decay, step: step,
		states:      f.moments(nil),
		groupStates: []groupState{{name: "step_num", kind: intEntry}},
		begin:       func(g *group, _ float64) { g.numbers[0]++ },
		options: map[string]any{"eps": []float64{f.eps1, f.eps2}, "clip_grad_norm": nil,
			"clip_grad_value": orNull(o.ClipGradValue)},
	}, DefaultImplementation, groups))
}
