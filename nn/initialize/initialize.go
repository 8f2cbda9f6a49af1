// Package initialize fills parameters with their first values: torch.nn.init, which cannot keep its
// name in Go.
//
//	options := initialize.KaimingOptions{Mode: initialize.FanOut, Nonlinearity: initialize.ReLU}
//	initialize.KaimingNormal(conv.Weight, options)
//	initialize.Zeros(conv.Bias)
//
// Every function changes its tensor in place without a trace in autograd and returns it. The same
// generator state gives the same bits as PyTorch. A nil generator is the default one.
package initialize

import (
	"math"

	"github.com/gotrainer/gotrainer/nn/internal/later"
	"github.com/gotrainer/gotrainer/torch"
)

// inPlace runs f, which changes t by numbers of g, outside of autograd and frees its intermediates.
func inPlace(t torch.Tensor, g *torch.Generator, f func(t torch.Tensor)) torch.Tensor {
	torch.NoGrad(func() { torch.Scope(func() { later.Fill("initialize", t, g, f) }) })
	return t
}

// Uniform draws from [a, b): torch.nn.init.uniform_.
func Uniform(t torch.Tensor, a, b float64, g *torch.Generator) torch.Tensor {
	return inPlace(t, g, func(t torch.Tensor) { t.Uniform_(a, b, g) })
}

// Normal draws from a normal distribution: torch.nn.init.normal_.
func Normal(t torch.Tensor, mean, std float64, g *torch.Generator) torch.Tensor {
	return inPlace(t, g, func(t torch.Tensor) { t.Normal_(mean, std, g) })
}

// TruncNormal draws from a normal distribution of which only the part in [a, b] is left:
// torch.nn.init.trunc_normal_, whose defaults are 0, 1, -2 and 2. The bounds are not scaled by std.
func TruncNormal(t torch.Tensor, mean, std, a, b float64, g *torch.Generator) torch.Tensor {
	normCDF := func(x float64) float64 { return (1 + math.Erf(x/math.Sqrt2)) / 2 }
	low, high := normCDF((a-mean)/std), normCDF((b-mean)/std)
	return inPlace(t, g, func(t torch.Tensor) {
		t.Uniform_(2*low-1, 2*high-1, g)
		torch.Call("aten::erfinv_", t)
		t.MulScalar_(std * math.Sqrt2)
		t.AddScalar_(mean)
		t.Clamp_(a, b)
	})
}

// Constant sets every element to value: torch.nn.init.constant_.
func Constant(t torch.Tensor, value float64) torch.Tensor {
	return inPlace(t, nil, func(t torch.Tensor) { t.Fill_(value) })
}

// Zeros sets every element to 0: torch.nn.init.zeros_.
func Zeros(t torch.Tensor) torch.Tensor { return inPlace(t, nil, func(t torch.Tensor) { t.Zero_() }) }

// Ones sets every element to 1: torch.nn.init.ones_.
func Ones(t torch.Tensor) torch.Tensor { return Constant(t, 1) }

// XavierUniform draws from a uniform distribution that keeps the variance of activations and
// gradients, after Glorot and Bengio (2010): torch.nn.init.xavier_uniform_, whose default gain is
// 1.
func XavierUniform(t torch.Tensor, gain float64, g *torch.Generator) torch.Tensor {
	a := math.Sqrt(3) * xavierStd("XavierUniform", t, gain)
	return Uniform(t, -a, a, g)
}

// XavierNormal is [XavierUniform] with a normal distribution: torch.nn.init.xavier_normal_.
func XavierNormal(t torch.Tensor, gain float64, g *torch.Generator) torch.Tensor {
	return Normal(t, 0, xavierStd("XavierNormal", t, gain), g)
}

func xavierStd(op string, t torch.Tensor, gain float64) float64 {
	in, out := fans(op, t)
	return gain * math.Sqrt(2/float64(in+out))
}

// KaimingOptions of [KaimingUniform] and [KaimingNormal]. The zero value means PyTorch's defaults.
type KaimingOptions struct {
	// the negative slope of LeakyReLU behind the layer; other nonlinearities do not use it
	A            float64
	Mode         FanMode          // zero means FanIn
	Nonlinearity Nonlinearity     // behind the layer; empty means LeakyReLU, which with A = 0 is ReLU
	Generator    *torch.Generator // nil means the default one
}

// KaimingUniform draws from a uniform distribution that keeps the variance behind rectifiers, after
// He et al. (2015): torch.nn.init.kaiming_uniform_.
func KaimingUniform(t torch.Tensor, o KaimingOptions) torch.Tensor {
	if t.Numel() == 0 {
		return t
	}
	bound := math.Sqrt(3) * o.std("KaimingUniform", t)
	return Uniform(t, -bound, bound, o.Generator)
}

// KaimingNormal is [KaimingUniform] with a normal distribution: torch.nn.init.kaiming_normal_.
func KaimingNormal(t torch.Tensor, o KaimingOptions) torch.Tensor {
	if t.Numel() == 0 {
		return t
	}
	return Normal(t, 0, o.std("KaimingNormal", t), o.Generator)
}

func (o KaimingOptions) std(op string, t torch.Tensor) float64 {
	fan, out := fans(op, t)
	if o.Mode == FanOut {
		fan = out
	}
	if o.Nonlinearity == "" {
		o.Nonlinearity = LeakyReLU
	}
	return CalculateGain(o.Nonlinearity, o.A) / math.Sqrt(float64(fan))
}

// Orthogonal fills t, seen as a matrix with its first dimension for rows, with orthogonal rows or
// columns of length gain, after Saxe et al. (2013): torch.nn.init.orthogonal_, whose default gain
// is 1.
func Orthogonal(t torch.Tensor, gain float64, g *torch.Generator) torch.Tensor {
	if t.Dim() < 2 {
		panic(torch.Errorf("initialize.Orthogonal", torch.ErrValue, "want a tensor of 2 or more dimensions, found %v",
			t.Shape()))
	}
	if t.Numel() == 0 {
		return t
	}
	return inPlace(t, g, func(t torch.Tensor) {
		rows := t.Size(0)
		columns := t.Numel() / rows
		flat := torch.TensorOptions{DType: t.DType(), Device: t.Device()}.Empty(rows, columns).Normal_(0, 1, g)
		if rows < columns {
			flat = flat.T()
		}
		qr := torch.Call("aten::linalg_qr", flat)
		q := qr[0].Mul_(qr[1].Diag(0).Sign()) // makes the draw uniform, see https://arxiv.org/pdf/math-ph/0609050.pdf
		if rows < columns {
			q = q.T()
		}
		t.View(rows, columns).Copy_(q)
		t.MulScalar_(gain)
	})
}
