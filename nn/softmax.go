package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// Softmax scales exp(x) to a sum of 1 along a dimension: torch.nn.Softmax.
type Softmax struct {
	Dim int64 // negative counts from the end
}

// Forward keeps the shape of x.
func (s Softmax) Forward(x torch.Tensor) torch.Tensor { return functional.Softmax(x, s.Dim) }

// LogSoftmax is the logarithm of [Softmax], computed more accurately: torch.nn.LogSoftmax.
type LogSoftmax struct {
	Dim int64 // negative counts from the end
}

// Forward keeps the shape of x.
func (s LogSoftmax) Forward(x torch.Tensor) torch.Tensor { return functional.LogSoftmax(x, s.Dim) }

// Softmin is [Softmax] of -x: torch.nn.Softmin.
type Softmin struct {
	Dim int64 // negative counts from the end
}

// Forward keeps the shape of x.
func (s Softmin) Forward(x torch.Tensor) torch.Tensor { return functional.Softmin(x, s.Dim) }

// Softmax2d is [Softmax] over the channels of every pixel: torch.nn.Softmax2d.
type Softmax2d struct{}

// Forward keeps the shape of x, [N, C, H, W] or [C, H, W].
func (Softmax2d) Forward(x torch.Tensor) torch.Tensor {
	if d := x.Dim(); d != 3 && d != 4 {
		panic(torch.Errorf("nn.Softmax2d", torch.ErrInvalid, "want [N, C, H, W] or [C, H, W], found %v", x.Shape()))
	}
	return functional.Softmax(x, -3)
}

// Softplus is log(1 + exp(Beta*x)) / Beta, and x itself where Beta*x is above Threshold:
// torch.nn.Softplus.
type Softplus struct {
	Beta      float64 // zero means 1
	Threshold float64 // zero means 20
}

// Forward keeps the shape of x.
func (s Softplus) Forward(x torch.Tensor) torch.Tensor {
	return functional.SoftplusWith(x, cmp.Or(s.Beta, 1), cmp.Or(s.Threshold, 20))
}

// Softsign is x / (1 + |x|): torch.nn.Softsign.
type Softsign struct{}

// Forward keeps the shape of x.
func (Softsign) Forward(x torch.Tensor) torch.Tensor { return functional.Softsign(x) }

// Softshrink moves x towards 0 by Lambda, and to 0 if it is closer than that: torch.nn.Softshrink.
type Softshrink struct {
	Lambda *float64 // nil means 0.5
}

// Forward keeps the shape of x.
func (s Softshrink) Forward(x torch.Tensor) torch.Tensor {
	return functional.Softshrink(x, optional.Or(s.Lambda, 0.5))
}

// Hardshrink sets elements within Lambda of 0 to 0: torch.nn.Hardshrink.
type Hardshrink struct {
	Lambda *float64 // nil means 0.5
}

// Forward keeps the shape of x.
func (h Hardshrink) Forward(x torch.Tensor) torch.Tensor {
	return functional.Hardshrink(x, optional.Or(h.Lambda, 0.5))
}

// Tanhshrink is x - tanh(x): torch.nn.Tanhshrink.
type Tanhshrink struct{}

// Forward keeps the shape of x.
func (Tanhshrink) Forward(x torch.Tensor) torch.Tensor { return functional.Tanhshrink(x) }

// LogSigmoid is log(1 / (1 + exp(-x))): torch.nn.LogSigmoid.
type LogSigmoid struct{}

// Forward keeps the shape of x.
func (LogSigmoid) Forward(x torch.Tensor) torch.Tensor { return functional.LogSigmoid(x) }

// GLU is the first half of x along a dimension times the sigmoid of the second: torch.nn.GLU.
type GLU struct {
	Dim *int64 // nil means the last
}

// Forward halves a dimension.
func (g GLU) Forward(x torch.Tensor) torch.Tensor { return functional.GLU(x, optional.Or(g.Dim, -1)) }
