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
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/nn/internal/later"
	"github.com/gotrainer/gotrainer/torch"
)

// inPlace runs f, which fills t with numbers drawn from g, without recording history, and frees the
// intermediates.
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

// TruncNormal draws from a normal distribution truncated to [a, b]: torch.nn.init.trunc_normal_,
// whose defaults are 0, 1, -2 and 2. The bounds are not scaled by std.
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

// Eye makes the matrix t the identity, with ones on its diagonal: torch.nn.init.eye_.
func Eye(t torch.Tensor) torch.Tensor {
	wantMatrix("Eye", t)
	return inPlace(t, nil, func(t torch.Tensor) {
		t.Zero_()
		t.Diagonal(0, 0, 1).Fill_(1)
	})
}

// Dirac makes a convolution with weight t, [out, in, ...] with one to three spatial dimensions,
// pass on as many channels unchanged as possible, in each of the groups that out is divided into:
// torch.nn.init.dirac_. Zero groups means 1.
func Dirac(t torch.Tensor, groups int64) torch.Tensor {
	groups = cmp.Or(groups, 1)
	if d := t.Dim(); d < 3 || d > 5 {
		panic(torch.Errorf("initialize.Dirac", torch.ErrValue, "want a tensor of 3 to 5 dimensions, found %v", t.Shape()))
	}
	out := t.Size(0) / groups
	if groups < 0 || out*groups != t.Size(0) {
		panic(torch.Errorf("initialize.Dirac", torch.ErrValue, "%d channels cannot be divided into %d groups", t.Size(0),
			groups))
	}
	return inPlace(t, nil, func(t torch.Tensor) {
		t.Zero_()
		center := t
		for center.Dim() > 2 {
			center = center.Select(2, center.Size(2)/2)
		}
		for g := range groups {
			center.Narrow(0, g*out, out).Diagonal(0, 0, 1).Fill_(1)
		}
	})
}

// Sparse draws the matrix t from a normal distribution and sets a share of each column, sparsity
// rounded up to whole elements, to zero, after Martens (2010): torch.nn.init.sparse_, whose
// default std is 0.01. The positions of the zeros are drawn from g too; PyTorch always draws them
// from the default generator.
func Sparse(t torch.Tensor, sparsity, std float64, g *torch.Generator) torch.Tensor {
	wantMatrix("Sparse", t)
	if !(sparsity >= 0 && sparsity <= 1) {
		panic(torch.Errorf("initialize.Sparse", torch.ErrValue, "sparsity is %v; want a share from 0 to 1", sparsity))
	}
	rows, columns := t.Size(0), t.Size(1)
	zeros := int64(math.Ceil(sparsity * float64(rows)))
	order := torch.TensorOptions{Generator: g}
	if g != nil {
		order.Device = t.Device()
	}
	return inPlace(t, g, func(t torch.Tensor) {
		t.Normal_(0, std, g)
		for k := range columns {
			chosen := order.RandPerm(rows).Narrow(0, 0, zeros)
			t.Select(1, k).IndexFill_(0, chosen.To(torch.TensorOptions{Device: t.Device(), DType: torch.Int64}), 0)
		}
	})
}

func wantMatrix(op string, t torch.Tensor) {
	if t.Dim() != 2 {
		panic(torch.Errorf("initialize."+op, torch.ErrValue, "want a tensor of 2 dimensions, found %v", t.Shape()))
	}
}

// XavierUniform draws from a uniform distribution that preserves the variance of activations and
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

// KaimingOptions are the options of [KaimingUniform] and [KaimingNormal]. The zero value means
// PyTorch's defaults.
type KaimingOptions struct {
	// the negative slope of the LeakyReLU after the layer; not used for other nonlinearities
	A            float64
	Mode         FanMode          // zero means FanIn
	Nonlinearity Nonlinearity     // after the layer; empty means LeakyReLU, which with A = 0 is ReLU
	Generator    *torch.Generator // nil means the default one
}

// KaimingUniform draws from a uniform distribution that preserves the variance after rectifiers,
// after He et al. (2015): torch.nn.init.kaiming_uniform_.
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

// Orthogonal fills t with orthogonal rows or columns of length gain, after Saxe et al. (2013):
// torch.nn.init.orthogonal_, whose default gain is 1. t is treated as a matrix whose rows are its
// first dimension.
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
		// This makes the distribution uniform, see https://arxiv.org/pdf/math-ph/0609050.pdf.
		q := qr[0].Mul_(qr[1].Diag(0).Sign())
		if rows < columns {
			q = q.T()
		}
		t.View(rows, columns).Copy_(q)
		t.MulScalar_(gain)
	})
}
