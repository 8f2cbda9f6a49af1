package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Conv1D is a linear layer whose weight is [in, out], as in OpenAI's models: Conv1D of
// transformers.
type Conv1D struct {
	Weight torch.Tensor `param:"weight"`
	Bias   torch.Tensor `param:"bias"`

	nn.Adaptable
	nn.Quantizable
}

// Conv1D makes a Conv1D. Its constructor draws with a standard deviation of 0.02.
func (b Builder) Conv1D(in, out int64) *Conv1D {
	l := &Conv1D{Weight: nn.Parameter(b.factory().Empty(in, out)), Bias: nn.Parameter(b.factory().Zeros(out))}
	if !b.Undrawn {
		torch.NoGrad(func() { initialize.Normal(l.Weight, 0, 0.02, nil) })
	}
	return l
}

// Forward maps [..., in] to [..., out].
func (l *Conv1D) Forward(x torch.Tensor) torch.Tensor {
	if w := l.Quantized(); w != nil {
		return l.Adapt(x, w.Linear(x, l.Bias))
	}
	shape := x.Shape()
	last := len(shape) - 1
	y := l.Bias.AddMM(x.View(-1, shape[last]), l.Weight)
	return l.Adapt(x, y.View(append(shape[:last:last], l.Weight.Size(1))...))
}

// SetQuantized is like that of [nn.Linear]: the size of w is [out, in].
func (l *Conv1D) SetQuantized(w nn.QuantizedWeight) { l.Replace(&l.Weight, w) }

// FloatWeight is like that of [nn.Linear], [out, in].
func (l *Conv1D) FloatWeight() torch.Tensor {
	if w := l.Quantized(); w != nil {
		return w.Float()
	}
	return l.Weight.Transpose(0, 1)
}

// OwnModules returns the modules of the adapter and of the quantized weight.
func (l *Conv1D) OwnModules() []nn.Named {
	return append(l.Adaptable.OwnModules(), l.Quantizable.OwnModules()...)
}
