package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// AdafactorHF is the Adafactor of transformers (transformers.Adafactor, optim="adafactor" of its
// Trainer). With g the gradient at update t, b = 1 - t^DecayRate and rms the root mean square:
//
//	s  = min(1e-2, 1/sqrt(t)), with WarmupInit min(1e-6*t, 1/sqrt(t)), without relative steps lr
//	l  = s * max(Eps2, rms(p)), without ScaleParameter l = s
//	v  = b*v + (1-b)*(g² + Eps1)                kept as means of rows and of columns where p has two dimensions or more
//	u  = g / sqrt(v)
//	u *= l / max(1, rms(u)/ClipThreshold)
//	m  = Beta1*m + (1-Beta1)*u,  u = m          only with Beta1
//	p -= l * WeightDecay * p
//	p -= u
//
// By default, steps are relative and the rate given to Step is ignored, so LR must be left out;
// LearningRate then returns 1e-2, the largest relative step. Hugging Face's Trainer sets both
// ScaleParameter and RelativeStep to false. float16 and bfloat16 parameters are updated in
// float32. As in transformers, ScaleParameter reads the size of the weights as a number: on a GPU,
// a step waits for this once per dtype.
//
// Source: Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost,
// https://arxiv.org/abs/1804.04235.
type AdafactorHF struct {
	LR             float64  // learning rate; must be set if there are no relative steps
	Eps1           *float64 // added to squared gradients; nil means 1e-30
	Eps2           *float64 // lower limit of the size of weights; nil means 1e-3
	ClipThreshold  *float64 // upper limit of the size of an update; nil means 1
	DecayRate      *float64 // power of t; nil means -0.8
	Beta1          *float64 // decay of the mean of updates; nil means no mean
	WeightDecay    *float64 // nil means 0
	ScaleParameter *bool    // steps relative to the size of the weights; nil means true
	RelativeStep   *bool    // the rate depends on the number of updates; nil means true
	WarmupInit     bool     // relative steps start small
}

// NewAdafactorHF makes an optimizer with one group, for your own loop. It panics with
// [*torch.Error] where [AdafactorHF.Build] would fail.
func NewAdafactorHF(params []torch.Named, o AdafactorHF) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdafactorHF", opt, err)
}

// LearningRate returns LR, or with relative steps the largest of them.
func (o AdafactorHF) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// Build makes the optimizer.
func (o AdafactorHF) Build(groups []Group) (Optimizer, error) {
	return buildAdafactorHF("AdafactorHF", o, nil, groups)
}

func buildAdafactorHF(name string, o AdafactorHF, low *LowRank, groups []Group) (Optimizer, error) {
	f := adafactorHF{AdafactorHF: o, eps1: optional.Or(o.Eps1, 1e-30), eps2: optional.Or(o.Eps2, 1e-3),
		limit: optional.Or(o.ClipThreshold, 1),
		power: optional.Or(o.DecayRate, -0.8), low: low,
		scale: o.ScaleParameter == nil || *o.ScaleParameter, relative: o.RelativeStep == nil || *o.RelativeStep}
	decay := optional.Or(o.WeightDecay, 0)
	err := checkSettings(name, setting{name: "LR", value: o.LR}, setting{name: "Eps1", value: f.eps1},
		setting{name: "Eps2", value: f.eps2},
		setting{name: "ClipThreshold", value: f.limit}, setting{"Beta1", optional.Or(o.Beta1, 0), 1},
		setting{name: "WeightDecay", value: decay})
	switch {
	case err != nil:
		return nil, err
	case f.limit == 0:
		return nil, errorf(ErrOption, "%s.ClipThreshold is 0; want a positive number", name)
	case math.IsNaN(f.power) || math.IsInf(f.power, 0):
		return nil, errorf(ErrOption, "%s.DecayRate is %g; want a finite number", name, f.power)
	case f.relative && o.LR != 0:
		return nil, errorf(ErrOption, "%s.LR is %g, but its steps are relative and ignore it; leave LR out, or set "+
			"RelativeStep to false", name, o.LR)
	case !f.relative && o.LR == 0:
		return nil, errorf(ErrOption, "%s.LR is not set, but its steps are not relative; want a learning rate", name)
	case o.WarmupInit && !f.relative:
		return nil, errorf(ErrOption, "%s.WarmupInit is set, but its steps are not relative; want RelativeStep", name)
	}
	for i, g := range groups {
		if f.relative && g.LRScale != 0 && g.LRScale != 1 {
			return nil, errorf(ErrOption, "LRScale of group %d is %g, but the steps of %s are relative and ignore "+
				"it; want none", i, g.LRScale, name)
		}
	}
	r := rule{name: name, lr: o.LearningRate(), weightDecay: decay, step: f.step, lowRank: low != nil,
		options: f.options()}
	r.states = []state{stepCount}
	if low != nil {
		r.states = append(r.states, low.states(wide)...)
		r.check = low.check
		r.lowRankOptions = low.options()
	}
	f.base = len(r.states)
	r.states = append(r.states, f.moments(low)...)
	if o.Beta1 != nil {
		r.states = append(r.states, f.state("exp_avg", func(m *member) ([]int64, bool) { return low.shapeOf(m), true }))
	}
	return build(r, DefaultImplementation, groups)
}

// adafactorHF is AdafactorHF with its defaults filled in.
type adafactorHF struct {
	AdafactorHF
	eps1, eps2, limit, power float64
	scale, relative          bool
	low                      *LowRank
	base                     int // index of the first state after those of the projector
}

func (f *adafactorHF) options() map[string]any {
	options := map[string]any{"eps": []float64{f.eps1, f.eps2}, "clip_threshold": f.limit, "decay_rate": f.power,
		"beta1":           nil,
		"scale_parameter": f.scale, "relative_step": f.relative, "warmup_init": f.WarmupInit}
	if f.Beta1 != nil {
		options["beta1"] = *f.Beta1
	}
	return options
}

// moments returns the states for means of squares: per row and per column for matrices, per element
// otherwise.
func (f *adafactorHF) moments(low *LowRank) []state {
	return []state{
		f.state("exp_avg_sq_row", func(m *member) ([]int64, bool) {
			s := low.shapeOf(m)
			return factorShape(s, -1, false), len(s) >= 2
		}),
		f.state("exp_avg_sq_col", func(m *member) ([]int64, bool) {
			s := low.shapeOf(m)
			return factorShape(s, -2, false), len(s) >= 2
		}),
		f.state("exp_avg_sq", func(m *member) ([]int64, bool) { s := low.shapeOf(m); return s, len(s) < 2 }),
	}
}

// state returns a state that is kept in float32 or wider, even if the parameter is narrower.
func (f *adafactorHF) state(name string, shape func(m *member) ([]int64, bool)) state {
	return state{name: name, make: func(m *member, _ float64) torch.Tensor {
		s, has := shape(m)
		if !has {
			return torch.Tensor{}
		}
		return torch.TensorOptions{DType: wide(m.Tensor.DType()), Device: m.Tensor.Device()}.Zeros(s...)
	}}
}

func wide(d torch.DType) torch.DType {
	if d == torch.Float16 || d == torch.BFloat16 {
		return torch.Float32
	}
	return d
}

func (f *adafactorHF) step(b *batch) {
	t := b.count()
	dtype := b.params.ts[0].DType()
	rate := b.lr
	if f.relative {
		least := 1e-2
		if f.WarmupInit {
			least = 1e-6 * t
		}
		rate = math.Min(least, 1/math.Sqrt(t))
	}
	decay := 1 - roundedmath.Pow(t, f.power)
	p := b.params.each(func(t torch.Tensor) torch.Tensor { return t.ToDType(wide(dtype)) })
	var sizes []float64
	if f.scale {
		sizes = numbers(p.each(rootMeanSquare))
	}
	for i, weights := range p.ts {
		l := num(rate)
		if f.scale {
			l = most(num(f.eps2), scalar{sizes[i], kindOf(wide(dtype))}).times(num(rate))
		}
		m, g := b.members[i], b.grads.ts[i].ToDType(wide(dtype))
		if m.lowRank {
			g = f.low.project(m, g, t-1)
		}
		update := f.direction(m, g, decay)
		update = update.Div_(rootMeanSquare(update).DivScalar(f.limit).Clamp(1.0, nil)).MulScalar_(l.v)
		if f.Beta1 != nil {
			mean := m.states[f.base+3]
			update = mean.MulScalar_(*f.Beta1).AddScaled_(update, 1-*f.Beta1)
		}
		if m.lowRank {
			update = f.low.projectBack(m, update)
		}
		if b.weightDecay != 0 {
			weights.AddScaled_(weights, num(-b.weightDecay).times(l).v)
		}
		weights.Add_(update.Neg())
		if dtype != wide(dtype) {
			b.params.ts[i].Copy_(weights)
		}
	}
}

// direction updates the means of squares and returns the gradient divided by their roots.
func (f *adafactorHF) direction(m *member, g torch.Tensor, decay float64) torch.Tensor {
	square := g.PowScalar(2).AddScalar(f.eps1)
	row, column, full := m.states[f.base], m.states[f.base+1], m.states[f.base+2]
	if full.Defined() {
		full.MulScalar_(decay).AddScaled_(square, 1-decay)
		return full.Rsqrt().Mul_(g)
	}
	row.MulScalar_(decay).AddScaled_(square.MeanDim([]int64{-1}, false, torch.DefaultDType), 1-decay)
	column.MulScalar_(decay).AddScaled_(square.MeanDim([]int64{-2}, false, torch.DefaultDType), 1-decay)
	rows := row.Div(row.MeanDim([]int64{-1}, true, torch.DefaultDType)).Rsqrt().Unsqueeze(-1)
	return rows.Mul(column.Unsqueeze(-2).Rsqrt()).Mul_(g)
}

func rootMeanSquare(t torch.Tensor) torch.Tensor {
	return norm2(t).DivScalar(math.Sqrt(float64(t.Numel())))
}
