package nn

import (
	"math"

	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// LinearOptions configures [NewLinear]. Nil and the zero value mean PyTorch's defaults.
type LinearOptions struct {
	NoBias  bool                // omit the bias
	Factory torch.TensorOptions // dtype, device and generator of the parameters
}

// Linear computes x·Wᵀ + b: torch.nn.Linear.
type Linear struct {
	Weight torch.Tensor `param:"weight"` // [out, in]
	Bias   torch.Tensor `param:"bias"`   // [out]; undefined without bias

	part *LinearPart

	Adaptable
	Quantizable
	traced
}

// NewLinear makes a Linear from in to out features, drawn uniformly from ±1/sqrt(in).
func NewLinear(in, out int64, o *LinearOptions) *Linear {
	mustBePositive("NewLinear", "in", in)
	mustBePositive("NewLinear", "out", out)
	opt := deref(o)
	l := &Linear{Weight: opt.Factory.Empty(out, in)}
	if !opt.NoBias {
		l.Bias = opt.Factory.Empty(out)
	}
	l.Weight, l.Bias = resetWeights(l.Weight, l.Bias, opt.Factory.Generator)
	return l
}

// Forward maps [..., in] to [..., out].
func (l *Linear) Forward(x torch.Tensor) torch.Tensor {
	if l.part != nil {
		return l.trace(x, torch.Return(func() torch.Tensor { return l.part.forward(l, x) }))
	}
	if w := l.Quantized(); w != nil {
		return l.trace(x, l.Adapt(x, w.Linear(x, l.Bias)))
	}
	return l.trace(x, l.Adapt(x, x.Linear(l.Weight, l.Bias)))
}

// SetQuantized makes the layer compute with w instead of Weight, which must have the size of w.
// Weight then holds the packed form of w and is not trained.
func (l *Linear) SetQuantized(w QuantizedWeight) { l.Replace(&l.Weight, w) }

// FloatWeight returns the weight as floating-point numbers, [out, in]. If the layer is quantized,
// the result is a new tensor.
func (l *Linear) FloatWeight() torch.Tensor {
	if w := l.Quantized(); w != nil {
		return w.Float()
	}
	return l.Weight
}

// OwnModules returns the modules of the adapter and of the quantized weight.
func (l *Linear) OwnModules() []Named {
	return append(l.Adaptable.OwnModules(), l.Quantizable.OwnModules()...)
}

// resetWeights initializes weight and bias like reset_parameters of PyTorch's linear and
// convolutional layers, and makes them parameters.
func resetWeights(weight, bias torch.Tensor, g *torch.Generator) (w, b torch.Tensor) {
	initialize.KaimingUniform(weight, initialize.KaimingOptions{A: math.Sqrt(5), Generator: g})
	if !bias.Defined() {
		return Parameter(weight), bias
	}
	in, _ := initialize.Fans(weight)
	bound := 1 / math.Sqrt(float64(in))
	initialize.Uniform(bias, -bound, bound, g)
	return Parameter(weight), Parameter(bias)
}
