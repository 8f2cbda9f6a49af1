package nn

import "github.com/gotrainer/gotrainer/torch"

// lazy is in every layer that takes the size of its input from its first one. Until then it has no
// parameters, and whoever asks for them is told so: an optimizer or a file would silently lack
// them.
type lazy struct {
	name string
	make func(x torch.Tensor)
}

func (l *lazy) pending() string {
	if l.make == nil {
		return ""
	}
	return l.name
}

// materialise makes the parameters for x if that has not been done. They are drawn now: the order
// of draws in a model of lazy layers is that of their first calls, as in PyTorch.
func (l *lazy) materialise(x torch.Tensor) {
	if l.make == nil {
		return
	}
	if torch.IsInferenceModeEnabled() {
		panic(mistake(l.name, torch.ErrInvalid, "the first Forward makes the parameters, and in InferenceMode they "+
			"could never be trained; call it outside, or in NoGrad"))
	}
	l.make(x)
	l.make = nil
}

// channelsOf is the number of channels of x, which has dims dimensions behind them and perhaps a
// batch before.
func channelsOf(op string, x torch.Tensor, dims int) int64 {
	shape := x.Shape()
	if d := len(shape); d != dims+1 && d != dims+2 {
		panic(mistake(op, torch.ErrInvalid, "want %d dimensions, or %d with a batch, found %v", dims+1, dims+2, shape))
	}
	return shape[len(shape)-dims-1]
}

// LazyLinear is a [Linear] whose first input tells how many features come in: torch.nn.LazyLinear.
// Call Forward once, on a batch of any size, before the model's parameters are listed, loaded,
// moved or given to an optimizer.
type LazyLinear struct {
	Linear
	lazy
}

// NewLazyLinear makes a LazyLinear to out features.
func NewLazyLinear(out int64, o *LinearOptions) *LazyLinear {
	mustBePositive("NewLazyLinear", "out", out)
	opt := deref(o)
	l := &LazyLinear{}
	l.lazy = lazy{"LazyLinear", func(x torch.Tensor) {
		if x.Dim() == 0 {
			panic(mistake("LazyLinear", torch.ErrInvalid, "want [..., in], found a number"))
		}
		made := NewLinear(x.Size(-1), out, &opt)
		l.Weight, l.Bias = made.Weight, made.Bias
	}}
	return l
}

// Forward maps [..., in] to [..., out].
func (l *LazyLinear) Forward(x torch.Tensor) torch.Tensor {
	l.materialise(x)
	return l.Linear.Forward(x)
}
