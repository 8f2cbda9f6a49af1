package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// AdamWScheduleFree needs no schedule: it trains at weights y between an average x of the run so
// far and the weights z that plain updates would give. With g the gradient at y at update t, l the
// rate, which is lr*t/WarmupSteps during warmup, and s the largest l so far:
//
//	v  = Beta2*v + (1-Beta2)*g²
//	u  = g / (sqrt(v / (1-Beta2^t)) + Eps) + WeightDecay * y
//	c  = w / (sum of all w) with w = t^R * s^WeightLRPower
//	z -= l * u
//	x  = (1-c)*x + c*z
//	y  = Beta1*x + (1-Beta1)*z
//
// Only y and z are kept. The parameters hold y in training mode and x in evaluation mode, see
// [ModeSwitcher]; a step in evaluation mode is refused. The gradients are overwritten. Use a
// constant rate. It is the class of that name in the package schedulefree.
//
// Source: Defazio and others, The Road Less Scheduled, https://arxiv.org/abs/2405.15682.
type AdamWScheduleFree struct {
	LR            float64  // learning rate; zero means 2.5e-3
	Beta1         *float64 // how close y is to x; nil means 0.9
	Beta2         *float64 // decay of the mean of squares; nil means 0.999
	Eps           *float64 // added to the divisor; nil means 1e-8
	WeightDecay   *float64 // nil means 0
	WarmupSteps   int      // updates over which the rate rises; zero: none
	R             float64  // exponent of t in the average
	WeightLRPower *float64 // exponent of the largest rate in the average; nil means 2
}

// RAdamScheduleFree is [AdamWScheduleFree] with RAdam's rectified rate instead of a warmup: the
// rate of update t is that of [RAdam], and nothing moves before the variance is known accurately
// enough.
type RAdamScheduleFree struct {
	LR            float64  // learning rate; zero means 2.5e-3
	Beta1         *float64 // how close y is to x; nil means 0.9
	Beta2         *float64 // decay of the mean of squares; nil means 0.999
	Eps           *float64 // added to the divisor; nil means 1e-8
	WeightDecay   *float64 // nil means 0
	R             float64  // exponent of t in the average
	WeightLRPower *float64 // exponent of the largest rate in the average; nil means 2
	SGDPhase      bool     // start with updates of SGD instead of none: silent_sgd_phase=False
}

// SGDScheduleFree is [AdamWScheduleFree] without the division by the mean of squares: u = g +
// WeightDecay * y. Momentum takes the place of Beta1.
type SGDScheduleFree struct {
	LR            float64  // learning rate; zero means 1
	Momentum      *float64 // how close y is to x, between 0 and 1; nil means 0.9
	WeightDecay   *float64 // nil means 0
	WarmupSteps   int      // updates over which the rate rises; zero: none
	R             float64  // exponent of t in the average
	WeightLRPower *float64 // exponent of the largest rate in the average; nil means 2
}

// LearningRate returns LR or its default.
func (o AdamWScheduleFree) LearningRate() float64 { return cmp.Or(o.LR, 2.5e-3) }

// LearningRate returns LR or its default.
func (o RAdamScheduleFree) LearningRate() float64 { return cmp.Or(o.LR, 2.5e-3) }

// LearningRate returns LR or its default.
func (o SGDScheduleFree) LearningRate() float64 { return cmp.Or(o.LR, 1) }

// Build makes the optimizer.
func (o AdamWScheduleFree) Build(groups []Group) (Optimizer, error) {
	f := scheduleFree{name: "AdamWScheduleFree", lr: o.LearningRate(), beta1: optional.Or(o.Beta1, 0.9),
		beta2: optional.Or(o.Beta2, 0.999),
		eps:   optional.Or(o.Eps, 1e-8), decay: optional.Or(o.WeightDecay, 0), warmup: o.WarmupSteps, r: o.R,
		power: optional.Or(o.WeightLRPower, 2), squares: true, key: "betas"}
	f.rate = f.warm
	return f.build(groups, map[string]any{"betas": []float64{f.beta1, f.beta2}, "eps": f.eps,
		"warmup_steps": f.warmup})
}

// Build makes the optimizer.
func (o RAdamScheduleFree) Build(groups []Group) (Optimizer, error) {
	f := scheduleFree{name: "RAdamScheduleFree", lr: o.LearningRate(), beta1: optional.Or(o.Beta1, 0.9),
		beta2: optional.Or(o.Beta2, 0.999),
		eps:   optional.Or(o.Eps, 1e-8), decay: optional.Or(o.WeightDecay, 0), r: o.R,
		power: optional.Or(o.WeightLRPower, 2), squares: true,
		sgdPhase: o.SGDPhase, key: "betas"}
	f.rate = f.rectified
	return f.build(groups, map[string]any{"betas": []float64{f.beta1, f.beta2}, "eps": f.eps,
		"silent_sgd_phase": !o.SGDPhase})
}

// Build makes the optimizer.
func (o SGDScheduleFree) Build(groups []Group) (Optimizer, error) {
	f := scheduleFree{name: "SGDScheduleFree", lr: o.LearningRate(), beta1: optional.Or(o.Momentum, 0.9),
		decay: optional.Or(o.WeightDecay, 0), warmup: o.WarmupSteps, r: o.R, power: optional.Or(o.WeightLRPower, 2),
		key: "momentum"}
	f.rate = f.warm
	return f.build(groups, map[string]any{"momentum": f.beta1, "warmup_steps": f.warmup})
}

// scheduleFree is the common part of the three optimizers, with the defaults filled in.
type scheduleFree struct {
	name                                   string
	lr, beta1, beta2, eps, decay, r, power float64
	warmup                                 int
	squares                                bool // divide by the root of the mean of squares
	sgdPhase                               bool
	key                                    string // key of beta1 in PyTorch's group
	rate                                   func(lr, t float64) (rate float64, divided bool)
}

// Indices of the numbers that are kept for a group.
const (
	trainMode = iota
	updatesDone
	weightSum
	largestRate
	scheduledRate
)

var scheduleFreeStates = []groupState{{name: "train_mode", kind: boolEntry}, {name: "k", kind: intEntry},
	{name: "weight_sum"}, {name: "lr_max", initial: -1}, {name: "scheduled_lr"}}

func (f *scheduleFree) build(groups []Group, options map[string]any) (Optimizer, error) {
	first := map[string]string{"betas": "Beta1", "momentum": "Momentum"}[f.key]
	err := checkSettings(f.name, setting{name: "LR", value: f.lr}, setting{first, f.beta1, 1},
		setting{"Beta2", f.beta2, 1}, setting{name: "Eps", value: f.eps}, setting{name: "WeightDecay", value: f.decay},
		setting{name: "WarmupSteps", value: float64(f.warmup)}, setting{name: "WeightLRPower", value: f.power})
	switch {
	case err != nil:
		return nil, err
	case f.beta1 == 0:
		return nil, errorf(ErrOption, "%s.%s is 0, but evaluation divides by it; want a number between 0 and 1",
			f.name, first)
	case math.IsNaN(f.r) || math.IsInf(f.r, 0):
		return nil, errorf(ErrOption, "%s.R is %g; want a finite number", f.name, f.r)
	}
	options["r"], options["weight_lr_power"] = f.r, f.power
	states := []state{{name: "z", make: func(m *member, _ float64) torch.Tensor { return m.Tensor.Detach().Clone() }}}
	if f.squares {
		states = append(states, zeros("exp_avg_sq"))
	}
	return build(rule{name: f.name, lr: f.lr, weightDecay: f.decay, options: options, states: states,
		groupStates: scheduleFreeStates, begin: f.begin, step: f.step, modes: f.modes}, Foreach, groups)
}

// warm returns the rate of update t, with linear warmup.
func (f *scheduleFree) warm(lr, t float64) (float64, bool) {
	if t-1 < float64(f.warmup) {
		return lr * (t / float64(f.warmup)), true
	}
	return lr, true
}

// rectified returns the rate of update t according to RAdam.
func (f *scheduleFree) rectified(lr, t float64) (float64, bool) {
	power := roundedmath.Pow(f.beta2, t)
	limit := 2/(1-f.beta2) - 1
	length := limit - 2*t*power/(1-power)
	if length > 4 {
		return lr * roundedmath.Pow((length-4)*(length-2)*limit/((limit-4)*(limit-2)*length), 0.5), true
	}
	if f.sgdPhase {
		return lr, false
	}
	return 0, false
}

// begin advances the state of a group.
func (f *scheduleFree) begin(g *group, lr float64) {
	n := g.numbers
	t := n[updatesDone] + 1
	n[scheduledRate], _ = f.rate(lr, t)
	n[largestRate] = math.Max(n[scheduledRate], n[largestRate])
	n[weightSum] += float64(roundedmath.Pow(t, f.r) * roundedmath.Pow(n[largestRate], f.power))
	n[updatesDone] = t
}

func (f *scheduleFree) step(b *batch) {
	n := b.group.numbers
	t := n[updatesDone]
	lr, divided := f.rate(b.lr, t)
	part := 0.0
	if n[weightSum] != 0 {
		part = float64(roundedmath.Pow(t, f.r)*roundedmath.Pow(n[largestRate], f.power)) / n[weightSum]
	}
	y, g, z := b.params, b.grads, b.states[0]
	if f.squares {
		square := b.states[1]
		square.mulScalar_(f.beta2)
		square.addcmul_(g, g, 1-f.beta2)
		if divided {
			root := square.divScalar(1 - roundedmath.Pow(f.beta2, t))
			root.sqrt_()
			root.addScalar_(f.eps)
			g.div_(root)
		}
	}
	if b.weightDecay != 0 {
		g.add_(y, b.weightDecay)
	}
	y.lerp_(z, part)
	y.add_(g, lr*(float64(f.beta1*(1-part))-1))
	z.sub_(g, lr)
}

// modes moves the weights of a group to y for training or to x for evaluation.
func (f *scheduleFree) modes(g *group, training bool) {
	weight := 1 - 1/f.beta1
	if training {
		weight = 1 - f.beta1
	}
	for _, s := range g.shards {
		operators := operators{foreach: true}
		list{s.params.Tensors(), operators}.lerp_(list{s.states[0].Tensors(), operators}, weight)
	}
	g.numbers[trainMode] = 0
	if training {
		g.numbers[trainMode] = 1
	}
}
