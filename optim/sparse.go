package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// SparseAdam is Adam for embeddings with sparse gradients, nn.EmbeddingOptions.Sparse:
// torch.optim.SparseAdam. Only the rows used by a batch change, in the weights and in both
// moments, so the cost of an update depends on the rows in the batch, not on the vocabulary. For
// these rows, with g the gradient at update t:
//
//	m += (1-Beta1) * (g - m)
//	v += (1-Beta2) * (g*g - v)
//	p -= lr * sqrt(1-Beta2^t) / (1-Beta1^t) * m / (sqrt(v) + Eps)
//
// Unlike in Adam, the moments of other rows do not decay. A gradient that is not sparse is
// refused; use another optimizer for other parameters. There is no weight decay.
type SparseAdam struct {
	LR       float64  // learning rate; zero means 1e-3
	Beta1    *float64 // decay of the mean of gradients; nil means 0.9
	Beta2    *float64 // decay of the mean of squares; nil means 0.999
	Eps      *float64 // added to the root; nil means 1e-8
	Maximize bool     // maximize the objective instead of minimizing it
}

// NewSparseAdam makes an optimizer with one group, for your own loop. It panics with
// [*torch.Error] where [SparseAdam.Build] would fail.
func NewSparseAdam(params []torch.Named, o SparseAdam) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewSparseAdam", opt, err)
}

// LearningRate returns LR or its default.
func (o SparseAdam) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o SparseAdam) Build(groups []Group) (Optimizer, error) {
	beta1, beta2, eps := optional.Or(o.Beta1, 0.9), optional.Or(o.Beta2, 0.999), optional.Or(o.Eps, 1e-8)
	err := checkSettings("SparseAdam", setting{name: "LR", value: o.LearningRate()}, setting{"Beta1", beta1, 1},
		setting{"Beta2", beta2, 1},
		setting{name: "Eps", value: eps})
	if err != nil {
		return nil, err
	}
	if eps == 0 {
		return nil, errorf(ErrOption, "SparseAdam.Eps is 0; want a positive number")
	}
	for i, g := range groups {
		if g.WeightDecay != nil && *g.WeightDecay != 0 {
			return nil, errorf(ErrOption, "WeightDecay of group %d is %g, but SparseAdam decays no weights; leave "+
				"it out", i, *g.WeightDecay)
		}
	}
	step := func(b *batch) {
		t := b.count()
		size := b.lr * math.Sqrt(1-roundedmath.Pow(beta2, t)) / (1 - roundedmath.Pow(beta1, t))
		for i, p := range b.params.ts {
			g := b.grads.ts[i]
			if o.Maximize {
				g = g.Neg()
			}
			sparseAdam(p, g, b.states[1].ts[i], b.states[2].ts[i], beta1, beta2, eps, size)
		}
	}
	return build(rule{
		name: "SparseAdam", lr: o.LearningRate(), step: step, gradients: onlySparse,
		states:  []state{stepCount, zeros("exp_avg"), zeros("exp_avg_sq")},
		options: map[string]any{"betas": []float64{beta1, beta2}, "eps": eps, "maximize": o.Maximize},
	}, DefaultImplementation, groups)
}

// sparseAdam is sparse_adam of torch/optim/_functional.py for one parameter.
func sparseAdam(p, g, mean, square torch.Tensor, beta1, beta2, eps, size float64) {
	call := func(name string, args ...any) torch.Tensor { return torch.Call(name, args...)[0] }
	// Sums up duplicate rows, since the update is not linear.
	g = call("aten::coalesce", g)
	indices, values := call("aten::_indices", g), call("aten::_values", g)
	if values.Numel() == 0 {
		return
	}
	shape := g.Shape()
	sparse := func(values torch.Tensor) torch.Tensor {
		return call("aten::sparse_coo_tensor.indices_size", indices, values, shape)
	}
	oldMean := call("aten::_values", call("aten::sparse_mask", mean, g))
	meanUpdate := values.Sub(oldMean).MulScalar_(1 - beta1)
	mean.Add_(sparse(meanUpdate))
	oldSquare := call("aten::_values", call("aten::sparse_mask", square, g))
	squareUpdate := values.PowScalar(2).Sub_(oldSquare).MulScalar_(1 - beta2)
	square.Add_(sparse(squareUpdate))
	root := call("aten::sqrt_", squareUpdate.Add_(oldSquare)).AddScalar_(eps)
	p.Add_(sparse(meanUpdate.Add_(oldMean).Div_(root).MulScalar(-size)))
}

// gradients says which kinds of gradient a rule supports.
type gradients int

const (
	onlyDense gradients = iota
	onlySparse
	anyGradients
)

// checkGradient panics if the rule does not support the kind of a parameter's first gradient.
func (r *rule) checkGradient(name string, g torch.Tensor) {
	sparse := !g.IsStrided()
	switch {
	case sparse && r.gradients == onlyDense:
		panic(&torch.Error{Op: "optim." + r.name + ".Step", Code: torch.ErrNotSupported,
			Msg: "the gradient of parameter \"" + name + "\" is sparse; " +
				"want SparseAdam for it, or SGD without momentum, weight decay and fused kernel, or a layer without " +
				"Sparse"})
	case !sparse && r.gradients == onlySparse:
		panic(&torch.Error{Op: "optim." + r.name + ".Step", Code: torch.ErrNotSupported,
			Msg: "the gradient of parameter \"" + name + "\" is not sparse; " +
				"want Adam or AdamW for it, and in SparseAdam only the weights of embeddings with Sparse"})
	}
}
