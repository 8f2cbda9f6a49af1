package lora

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// magnitude is what DoRA trains besides the update of a layer: the norm of each row of the weight.
// The layer computes x·(m·V/‖V‖)ᵀ + b with V = W + s·B·A. The norm ‖V‖ follows the update, but
// gradients do not go through it (section 4.3 of the paper).
//
// Source: Liu and others, DoRA: Weight-Decomposed Low-Rank Adaptation, 2024; peft/tuners/lora/dora.py.
type magnitude struct {
	Weight torch.Tensor `param:"weight"` // [out]

	layer layer
}

// newMagnitude returns the norms of the rows with the update as it was drawn.
func newMagnitude(l layer, u *update) *magnitude {
	m := &magnitude{layer: l}
	torch.NoGrad(func() {
		torch.Scope(func() {
			a, b := u.A.Weight, u.B.Weight
			if a.DType() == torch.Float16 {
				a, b = a.ToDType(torch.Float32), b.ToDType(torch.Float32)
			}
			delta := b.MatMul(a).ToDType(u.A.Weight.DType())
			m.Weight = rowNorms(l.FloatWeight().Add(delta.MulScalar(u.scale))).Keep()
		})
	})
	m.Weight.SetRequiresGrad(true)
	return m
}

// isNorm reports whether the magnitudes are the norms of the layer's own weight, so that a layer
// whose B is zero computes what it does without the adapter.
func (m *magnitude) isNorm() bool {
	return m.Weight.Detach().Equal(rowNorms(m.layer.FloatWeight().Detach()).ToDType(m.Weight.DType()))
}

// rowNorms returns the norms of the rows of v, [out].
func rowNorms(v torch.Tensor) torch.Tensor {
	return torch.Call("aten::linalg_norm", v, nil, []int64{1}, false, nil)[0].ToDType(v.DType())
}

// change returns what is added to the output y of the layer for the input x.
func (m *magnitude) change(u *update, x, y torch.Tensor) torch.Tensor {
	base, bias := y, m.bias()
	dropped := u.Dropout != nil && u.Dropout.Training()
	if dropped {
		x = u.Dropout.Forward(x)
	}
	in := u.A.Weight.Size(1)
	identity := torch.TensorOptions{DType: u.A.Weight.DType(), Device: u.A.Weight.Device()}.Eye(in)
	// B·A, by way of the layers as in peft: autocast rounds it
	delta := u.B.Forward(u.A.Forward(identity)).Transpose(0, 1).ToDType(x.DType()).Detach()
	weight := m.layer.FloatWeight().ToDType(x.DType())
	scale := m.Weight.Div(rowNorms(weight.Add(delta.MulScalar(u.scale))).Detach()).View(1, -1)
	low := u.B.Forward(u.A.Forward(x))
	switch {
	case dropped: // y is of the input without dropout
		base = x.Linear(weight, torch.Tensor{})
	case bias.Defined():
		base = y.Sub(bias)
	}
	return scale.SubScalar(1).Mul(base).Add(scale.Mul(low).MulScalar(u.scale))
}

// bias is that of the layer; not defined: it has none.
func (m *magnitude) bias() torch.Tensor {
	if c, ok := m.layer.(*transformer.Conv1D); ok {
		return c.Bias
	}
	return m.layer.(*nn.Linear).Bias
}

// scaled returns v = W + s·B·A, [out, in], with its rows scaled to the magnitudes: the weight of the
// layer after Merge.
func (m *magnitude) scaled(v torch.Tensor) torch.Tensor {
	return m.Weight.Div(rowNorms(v)).View(-1, 1).Mul(v)
}
