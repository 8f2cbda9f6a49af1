package optim

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// APOLLOAdamW is [AdamW] that keeps its moments at a lower rank than [GaLoreAdamW], and uses them
// only to decide how much to scale the gradient: AdamW of apollo_torch. With P a random matrix,
// redrawn every UpdateGap updates, and g the gradient at update t:
//
//	h  = g·Pᵀ  (or Pᵀ·g)                                 only in groups with LowRank
//	m  = Beta1*m + (1-Beta1)*h
//	v  = Beta2*v + (1-Beta2)*h²
//	d  = m / (sqrt(v) + Eps)
//	s  = |d| / |h|  of each channel, or of the whole matrix
//	u  = s * g, shortened so that it is at most 1.01 times as long as the last one
//	p -= lr * sqrt(1-Beta2^t) / (1-Beta1^t) * sqrt(Scale) * u
//	p -= lr * WeightDecay * p
//
// APOLLO-Mini is Rank 1, ScaleType [ScaleByTensor] and Scale 128: it has hardly any state.
// [LowRankGroups] makes the groups. The random matrices depend on a parameter's position among all
// parameters, not on the seed of the program.
//
// Source: Zhu and others, APOLLO: SGD-like Memory, AdamW-level Performance,
// https://arxiv.org/abs/2412.05270.
type APOLLOAdamW struct {
	LR               float64  // learning rate; zero means 1e-3
	Beta1            *float64 // decay of the mean of gradients; nil means 0.9
	Beta2            *float64 // decay of the mean of squares; nil means 0.999
	Eps              *float64 // added to the divisor; nil means 1e-6
	WeightDecay      *float64 // decoupled; nil means 0
	NoBiasCorrection bool     // correct_bias=False

	LowRankBeta1 *float64 // Beta1 of low-rank groups; nil means the same
	LowRankBeta2 *float64 // Beta2 of low-rank groups; nil means the same
	LowRankEps   *float64 // Eps of low-rank groups; nil means the same

	// Rank, UpdateGap, Scale and Projection of the groups with LowRank; a Scale of zero means 1.
	// Only the shorter side of a matrix can be projected.
	LowRank
	ScaleType           ScaleType // which parts of a matrix are scaled separately
	SVD                 bool      // make P from singular vectors of the gradient, as in GaLore: proj="svd"
	ScaleFront          bool      // apply Scale before the limit on the growth of updates: scale_front
	NoNormGrowthLimiter bool      // do not limit the growth of updates: disable_nl
}

// ScaleType says which parts of a matrix [APOLLOAdamW] scales separately: scale_type.
type ScaleType string

const (
	ScaleByChannel ScaleType = ""       // each row or column, whichever is more numerous: channel
	ScaleByTensor  ScaleType = "tensor" // the whole matrix
)

// LearningRate returns LR or its default.
func (o APOLLOAdamW) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// apollo is APOLLOAdamW with the defaults filled in.
type apollo struct {
	APOLLOAdamW
	low             *LowRank
	full, projected adamNumbers
	seeds           map[string]int64 // by parameter
	base            int              // index of the first state after those of the projector
}

type adamNumbers struct{ beta1, beta2, eps float64 }

// Build makes the optimizer. It refuses parameters of low-rank groups that are not matrices, or
// whose longer side would be projected.
func (o APOLLOAdamW) Build(groups []Group) (Optimizer, error) {
	if o.LowRank.Scale == 0 {
		o.LowRank.Scale = 1
	}
	low, err := o.LowRank.withDefaults("APOLLOAdamW")
	if err != nil {
		return nil, err
	}
	low.anyRank = !o.SVD
	f := &apollo{APOLLOAdamW: o, low: low, full: adamNumbers{optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.999),
		optional.Or(o.Eps, 1e-6)}}
	f.projected = adamNumbers{optional.Or(o.LowRankBeta1, f.full.beta1), optional.Or(o.LowRankBeta2, f.full.beta2),
		optional.Or(o.LowRankEps, f.full.eps)}
	decay := optional.Or(o.WeightDecay, 0)
	err = checkSettings("APOLLOAdamW", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", f.full.beta1, 1},
		setting{"Beta2", f.full.beta2, 1}, setting{name: "Eps", value: f.full.eps}, setting{name: "WeightDecay",
			value: decay},
		setting{"LowRankBeta1", f.projected.beta1, 1}, setting{"LowRankBeta2", f.projected.beta2, 1},
		setting{name: "LowRankEps", value: f.projected.eps})
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains([]ScaleType{ScaleByChannel, ScaleByTensor, "channel"}, o.ScaleType):
		return nil, errorf(ErrOption, "APOLLOAdamW.ScaleType is %q; want channel or tensor", o.ScaleType)
	case low.Projection == ProjectFull:
		return nil, errorf(ErrOption, "APOLLOAdamW.Projection is full; it projects one side only, want std")
	}
	f.number(groups)
	r := rule{name: "APOLLOAdamW", lr: o.LearningRate(), weightDecay: decay, lowRank: true, step: f.step,
		check: f.check,
		options: map[string]any{"betas": []float64{f.full.beta1, f.full.beta2}, "eps": f.full.eps,
			"correct_bias": !o.NoBiasCorrection}, lowRankOptions: low.options()}
	maps.Copy(r.lowRankOptions, map[string]any{"betas": []float64{f.projected.beta1, f.projected.beta2},
		"eps": f.projected.eps, "proj": "random", "scale_type": "channel"})
	if o.SVD {
		r.lowRankOptions["proj"] = "svd"
	}
	if o.ScaleType == ScaleByTensor {
		r.lowRankOptions["scale_type"] = "tensor"
	}
	r.states = append([]state{stepCount}, low.states(func(d torch.DType) torch.DType { return d })...)
	if !o.SVD { // random matrices are row-major
		for i := projector; i <= projectorRight; i++ {
			make := r.states[i].make
			r.states[i].make = func(m *member, lr float64) torch.Tensor {
				if t := make(m, lr); t.Defined() {
					return t.Contiguous()
				}
				return torch.Tensor{}
			}
		}
	}
	f.base = len(r.states)
	moment := func(name string) state {
		return state{name: name, make: func(m *member, _ float64) torch.Tensor {
			return torch.TensorOptions{DType: m.Tensor.DType(), Device: m.Tensor.Device()}.Zeros(low.shapeOf(m)...)
		}}
	}
	r.states = append(r.states, moment("exp_avg"), moment("exp_avg_sq"),
		// The norm of the last update; 0 before the first.
		state{name: "scaled_grad", make: func(m *member, _ float64) torch.Tensor {
			if !m.lowRank || o.NoNormGrowthLimiter {
				return torch.Tensor{}
			}
			return torch.TensorOptions{DType: m.Tensor.DType(), Device: m.Tensor.Device()}.Zeros([]int64{}...)
		}},
		state{name: "seed", make: func(m *member, _ float64) torch.Tensor {
			if !m.lowRank || o.SVD {
				return torch.Tensor{}
			}
			return torch.From([]int64{f.seeds[m.Name]}).View([]int64{}...)
		}})
	return build(r, DefaultImplementation, groups)
}

// number sets the seed for each parameter's random matrices: its position among all parameters,
// counted from 1.
func (f *apollo) number(groups []Group) {
	f.seeds = map[string]int64{}
	place := int64(0)
	for _, g := range groups {
		for _, p := range g.Params {
			place++
			f.seeds[p.Name] = place
		}
	}
}

func (f *apollo) check(g Group, p torch.Named) error {
	if err := f.low.check(g, p); err != nil || !g.LowRank {
		return err
	}
	if s := p.Tensor.Shape(); f.low.right(s) != (s[0] >= s[1]) {
		return errorf(ErrParam, "the longer side of parameter %q, of shape %v, would be projected, for which "+
			"APOLLOAdamW has no scales; want Projection std", p.Name, s)
	}
	return nil
}

func (f *apollo) step(b *batch) {
	t := b.count()
	for i, m := range b.members {
		n := f.full
		if m.lowRank {
			n = f.projected
		}
		size := b.lr
		if !f.NoBiasCorrection {
			size = size * math.Sqrt(1-roundedmath.Pow(n.beta2, t)) / (1 - roundedmath.Pow(n.beta1, t))
		}
		raw := b.grads.ts[i]
		g := raw
		if m.lowRank {
			g = f.project(m, raw, t-1)
		}
		mean, square := m.states[f.base], m.states[f.base+1]
		mean.MulScalar_(n.beta1).AddScaled_(g, 1-n.beta1)
		torch.Call("aten::addcmul_", square.MulScalar_(n.beta2), g, g, 1-n.beta2)
		update := mean.Div(square.Sqrt().AddScalar_(n.eps))
		if m.lowRank {
			update = f.scaled(m, raw, g, update, t == 1)
		}
		b.params.ts[i].AddScaled_(update, -size)
		if b.weightDecay > 0 {
			b.params.ts[i].AddScaled_(b.params.ts[i], -b.lr*b.weightDecay)
		}
	}
}

// project projects a gradient to the lower rank. Every UpdateGap updates, it draws a new random
// matrix first.
func (f *apollo) project(m *member, g torch.Tensor, done float64) torch.Tensor {
	if f.SVD {
		return f.low.project(m, g, done)
	}
	if int(done)%f.low.UpdateGap == 0 {
		seed := m.states[f.base+3]
		f.draw(m.states[projector], uint64(torch.Values[int64](seed)[0]))
		seed.Copy_(nextSeed(uint64(torch.Values[int64](seed)[0])))
	}
	if f.low.right(g.Shape()) {
		return g.MatMul(m.states[projector].T())
	}
	return m.states[projector].T().MatMul(g)
}

// draw fills a matrix with normally distributed numbers of variance 1/rank.
func (f *apollo) draw(matrix torch.Tensor, seed uint64) {
	g := torch.NewGeneratorOn(matrix.Device(), seed)
	drawn := torch.TensorOptions{Device: matrix.Device(), Generator: g}.Randn(matrix.Shape()...)
	matrix.Copy_(drawn.DivScalar(math.Sqrt(float64(f.low.Rank))))
}

// nextSeed returns the fifteenth number drawn from a generator with the given seed.
func nextSeed(seed uint64) torch.Tensor {
	drawn := torch.TensorOptions{DType: torch.Int64, Generator: torch.NewGenerator(seed)}.RandInt(0, math.MaxInt64, 15)
	return drawn.Select(0, 14)
}

// scaled returns the gradient, scaled by the ratio of the norms of the low-rank update and the
// low-rank gradient.
func (f *apollo) scaled(m *member, raw, low, update torch.Tensor, first bool) torch.Tensor {
	var factor torch.Tensor
	if f.ScaleType == ScaleByTensor {
		factor = norm2(update).Div(norm2(low).AddScalar(1e-8))
	} else {
		dim := int64(1)
		if s := raw.Shape(); s[0] < s[1] {
			dim = 0
		}
		length := func(t torch.Tensor) torch.Tensor {
			return torch.Call("aten::linalg_vector_norm", t, 2, []int64{dim}, true, nil)[0]
		}
		factor = length(update).Div(length(low).AddScalar(1e-8))
	}
	scaled := raw.Mul(factor)
	scale := math.Sqrt(f.low.Scale)
	if f.ScaleFront {
		scaled.MulScalar_(scale)
	}
	if !f.NoNormGrowthLimiter {
		last, length := m.states[f.base+2], norm2(scaled)
		if !first {
			growth := length.Div(last.AddScalar(1e-8))
			limit := torch.Where(growth.LtScalar(1.01), growth.OnesLike(), growth.DivScalar(1.01))
			scaled, length = scaled.Div(limit), length.Div(limit)
		}
		last.Copy_(length)
	}
	if !f.ScaleFront {
		scaled.MulScalar_(scale)
	}
	return scaled
}
