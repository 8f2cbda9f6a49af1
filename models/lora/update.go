package lora

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// layer is a layer that can have an update: a linear layer or a Conv1D.
type layer interface {
	Adapter() nn.LinearAdapter
	SetAdapter(a nn.LinearAdapter)
	Quantized() nn.QuantizedWeight
	SetQuantized(w nn.QuantizedWeight)
	FloatWeight() torch.Tensor
}

// asLayer returns a module as a layer; ok is false if it cannot have an update.
func asLayer(module any) (l layer, ok bool) {
	switch m := module.(type) {
	case *nn.Linear:
		return m, true
	case *transformer.Conv1D:
		return m, true
	}
	return nil, false
}

// sizes returns a layer's weight and its numbers of features, and whether the weight is [in, out]
// instead of [out, in].
func sizes(l layer) (weight torch.Tensor, in, out int64, fanInFanOut bool) {
	if w := l.Quantized(); w != nil {
		out, in = w.Size()
		return w.Packed(), in, out, false
	}
	if c, ok := l.(*transformer.Conv1D); ok {
		return c.Weight, c.Weight.Size(0), c.Weight.Size(1), true
	}
	weight = l.(*nn.Linear).Weight
	return weight, weight.Size(1), weight.Size(0), false
}

// update is the low-rank update of a layer.
type update struct {
	Dropout   *nn.Dropout `module:"lora_dropout"`          // nil means none
	A         *nn.Linear  `module:"lora_A"`                // [R, in]
	B         *nn.Linear  `module:"lora_B"`                // [out, R]
	Magnitude *magnitude  `module:"lora_magnitude_vector"` // nil means no DoRA

	scale float64
	on    *bool // whether the adapter is enabled
	// round the update to the dtype of the output before adding it, as peft does for quantized
	// weights
	narrow bool
}

// newUpdate draws an update in the same order as peft: first both layers like PyTorch's
// constructors, then again according to Init.
func newUpdate(l layer, name string, c Config, on *bool) *update {
	weight, in, out, _ := sizes(l)
	r, scale := c.scaling(name)
	u := &update{A: nn.NewLinear(in, r, &nn.LinearOptions{NoBias: true}),
		B: nn.NewLinear(r, out, &nn.LinearOptions{NoBias: true}), scale: scale, on: on,
		narrow: l.Quantized() != nil}
	if c.Dropout > 0 {
		u.Dropout = nn.NewDropout(c.Dropout)
	}
	switch c.Init {
	case InitKaiming:
		initialize.KaimingUniform(u.A.Weight, initialize.KaimingOptions{A: math.Sqrt(5)})
		initialize.Zeros(u.B.Weight)
	case InitGaussian:
		initialize.Normal(u.A.Weight, 0, 1/float64(r), nil)
		initialize.Zeros(u.B.Weight)
	case InitRandom:
	}
	d := weight.DType()
	if w := l.Quantized(); w != nil {
		d = w.DType()
	}
	nn.To(u, torch.TensorOptions{DType: d, Device: weight.Device()})
	if c.UseDoRA {
		u.Magnitude = newMagnitude(l, u)
	}
	if d == torch.BFloat16 || d == torch.Float16 { // update weights are kept in float32: autocast_adapter_dtype
		nn.To(u, torch.TensorOptions{DType: torch.Float32})
	}
	return u
}

// Adapt adds the update to the output of the layer.
func (u *update) Adapt(x, y torch.Tensor) torch.Tensor {
	if !*u.on {
		return y
	}
	x = x.ToDType(u.A.Weight.DType())
	if u.Magnitude != nil {
		return y.Add(u.Magnitude.change(u, x, y)).ToDType(y.DType())
	}
	if u.Dropout != nil {
		x = u.Dropout.Forward(x)
	}
	change := u.B.Forward(u.A.Forward(x)).MulScalar(u.scale)
	if u.narrow {
		change = change.ToDType(y.DType())
	}
	return y.Add(change).ToDType(y.DType())
}

// merge adds the update to the weight of the layer. A quantized weight is quantized again.
func (u *update) merge(l layer) (err error) {
	torch.NoGrad(func() {
		torch.Scope(func() {
			delta := u.B.Weight.MatMul(u.A.Weight).MulScalar(u.scale)
			weight := l.FloatWeight() // the weight itself, a view of it, or computed from a quantized one
			merged := weight.Add(delta)
			if u.Magnitude != nil {
				merged = u.Magnitude.scaled(merged).ToDType(weight.DType())
			}
			q := l.Quantized()
			if q == nil {
				weight.Copy_(merged)
				return
			}
			var w nn.QuantizedWeight
			if w, err = q.Repack(merged); err == nil {
				l.SetQuantized(w)
			}
		})
	})
	return err
}
