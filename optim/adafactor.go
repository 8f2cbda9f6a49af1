package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// Adafactor keeps the mean of squares of a matrix as one row and one column:
// torch.optim.Adafactor. [AdafactorHF] is the Adafactor of transformers, which differs. With g the
// gradient at update t and b = t^Beta2Decay, matrices (in the last two dimensions of a parameter)
// and vectors are updated by:
//
//	p -= lr * WeightDecay * p
//	r  = r + b*(mean of g² over columns - r),  c likewise over rows,  v = r·c / max(mean(r), Eps1)
//	v  = v + b*(g² - v)                                                for vectors
//	u  = g / sqrt(max(v, Eps1²))
//	p -= max(Eps2, rms(p)) * min(lr, 1/sqrt(t)) / max(1, rms(u)/ClipThreshold) * u
//
// As in PyTorch, the sizes of weights and updates are read as numbers along the way: on a GPU, a
// step waits for this twice per dtype and kind. If the parameters of a group have several dtypes,
// PyTorch takes the default of Eps1 from the first; here each parameter has the default of its own
// dtype.
//
// Source: Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost,
// https://arxiv.org/abs/1804.04235.
type Adafactor struct {
	LR            float64  // upper limit of the relative step; zero means 1e-2
	Beta2Decay    *float64 // power of t, not positive; nil means -0.8
	Eps1          *float64 // nil means the machine epsilon of the parameter's dtype
	Eps2          *float64 // lower limit of the size of weights; nil means 1e-3
	ClipThreshold *float64 // d, upper limit of the size of an update, at least 1; nil means 1
	WeightDecay   *float64 // decoupled; nil means 0
	Maximize      bool     // maximize the objective instead of minimizing it

	// there is no fused kernel; the default is for-loop on any device, as in PyTorch
	Implementation Implementation
}

// NewAdafactor makes an optimizer with one group, for your own loop. It panics with
// [*torch.Error] where [Adafactor.Build] would fail.
func NewAdafactor(params []torch.Named, o Adafactor) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdafactor", opt, err)
}

// LearningRate returns LR or its default.
func (o Adafactor) LearningRate() float64 { return cmp.Or(o.LR, 1e-2) }

// Build makes the optimizer.
func (o Adafactor) Build(groups []Group) (Optimizer, error) {
	power, eps2, limit, decay := optional.Or(o.Beta2Decay, -0.8), optional.Or(o.Eps2, 1e-3),
		optional.Or(o.ClipThreshold, 1), optional.Or(o.WeightDecay, 0)
	err := checkSettings("Adafactor", setting{name: "LR", value: o.LearningRate()},
		setting{name: "Eps1", value: optional.Or(o.Eps1, 0)},
		setting{name: "Eps2", value: eps2}, setting{name: "ClipThreshold", value: limit}, setting{name: "WeightDecay",
			value: decay})
	if err != nil {
		return nil, err
	}
	if !(power <= 0) || math.IsInf(power, 0) {
		return nil, errorf(ErrOption, "Adafactor.Beta2Decay is %g; want a finite number that is not positive", power)
	}
	if limit < 1 {
		return nil, errorf(ErrOption, "Adafactor.ClipThreshold is %g; want at least 1", limit)
	}
	if o.Implementation == DefaultImplementation {
		o.Implementation = ForLoop
	}
	const row, column, vector = 1, 2, 3
	step := func(b *batch) {
		p := b.params
		eps1 := optional.Or(o.Eps1, spacing(p.ts[0].DType()))
		t := b.count()
		g := b.gradient(o.Maximize, 0)
		weight := roundedmath.Pow(t, power)
		rate := math.Min(b.lr, 1/math.Sqrt(t))
		sizes := p.norms()
		if b.weightDecay != 0 {
			p.mulScalar_(1 - b.lr*b.weightDecay)
		}
		var update list
		if rows := b.states[row]; len(rows.ts) > 0 {
			columns := b.states[column]
			rows.lerp_(g.each(func(t torch.Tensor) torch.Tensor { return meanSquare(t, -1) }), weight)
			columns.lerp_(g.each(func(t torch.Tensor) torch.Tensor { return meanSquare(t, -2) }), weight)
			update = list{make([]torch.Tensor, len(rows.ts)), rows.operators}
			for i, r := range rows.ts {
				update.ts[i] = r.MatMul(columns.ts[i])
			}
			means := rows.each(func(r torch.Tensor) torch.Tensor {
				return r.MeanDim([]int64{-2}, true, torch.DefaultDType)
			})
			means.clampMin_(eps1)
			update.div_(means)
		} else {
			b.states[vector].lerp_(g.mul(g), weight)
			update = b.states[vector].each(torch.Tensor.Clone)
		}
		update.clampMin_(eps1 * eps1)
		update.rsqrt_()
		update.mul_(g)
		factors := make([]float64, len(update.ts))
		for i, size := range update.norms() {
			root := math.Sqrt(float64(update.ts[i].Numel()))
			alpha := atLeast(eps2, sizes[i]/root) * rate
			factors[i] = -alpha / atLeast(1, size/(root*limit))
		}
		if b.foreach {
			torch.Call("aten::_foreach_mul_.ScalarList", update.ts, factors)
			p.add_(update, 1)
			return
		}
		for i, factor := range factors {
			p.ts[i].AddScaled_(update.ts[i], factor)
		}
	}
	eps := []any{nil, eps2}
	if o.Eps1 != nil {
		eps[0] = *o.Eps1
	}
	return build(rule{
		name: "Adafactor", lr: o.LearningRate(), weightDecay: decay, step: step,
		states: []state{stepCount, factor("row_var", -1, true), factor("col_var", -2, true),
			{name: "variance", make: func(m *member, _ float64) torch.Tensor {
				if m.Tensor.Dim() > 1 {
					return torch.Tensor{}
				}
				return m.Tensor.ZerosLike()
			}}},
		options: map[string]any{"beta2_decay": power, "eps": eps, "d": limit, "maximize": o.Maximize},
	}, o.Implementation, groups)
}

// atLeast is like Python's max(least, v): if v is nan, it returns least. So one nan in a gradient
// does not make the whole parameter nan.
func atLeast(least, v float64) float64 {
	if v > least {
		return v
	}
	return least
}

// factor is a state with the shape of the parameter, except that dimension dim is removed or, with
// keep, reduced to one element. Only parameters with two or more dimensions have it.
func factor(name string, dim int, keep bool) state {
	return state{name: name, make: func(m *member, _ float64) torch.Tensor {
		if m.Tensor.Dim() < 2 {
			return torch.Tensor{}
		}
		return torch.TensorOptions{DType: m.Tensor.DType(),
			Device: m.Tensor.Device()}.Zeros(factorShape(m.Tensor.Shape(),
			dim, keep)...)
	}}
}

func factorShape(shape []int64, dim int, keep bool) []int64 {
	at := len(shape) + dim
	var out []int64
	for i, n := range shape {
		switch {
		case i != at:
			out = append(out, n)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// meanSquare returns the mean of the squares along a dimension, computed from the norm.
func meanSquare(t torch.Tensor, dim int64) torch.Tensor {
	n := torch.Call("aten::linalg_vector_norm", t, 2, []int64{dim}, true)[0]
	return n.Mul_(n).DivScalar_(t.Size(dim))
}

// spacing returns torch.finfo(d).eps.
func spacing(d torch.DType) float64 {
	switch d {
	case torch.Float64:
		return 0x1p-52
	case torch.Float16:
		return 0x1p-10
	case torch.BFloat16:
		return 0x1p-7
	}
	return 0x1p-23
}
