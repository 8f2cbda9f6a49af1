package optim

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// scalar is a number in a formula that PyTorch computes partly with Python numbers and partly with
// tensors without dimensions. If one operand is a float32 tensor, both operands and the result are
// rounded to float32; everything else is computed in float64. A number divided by a tensor is
// computed as the number times the tensor's reciprocal.
type scalar struct {
	v    float64
	kind scalarKind
}

type scalarKind uint8

const (
	python scalarKind = iota
	float64Tensor
	float32Tensor
)

// num returns a Python number.
func num(v float64) scalar { return scalar{v, python} }

// kindOf returns the kind of a tensor without dimensions of dtype d.
func kindOf(d torch.DType) scalarKind {
	if d == torch.Float64 {
		return float64Tensor
	}
	return float32Tensor
}

func (k scalarKind) round(v float64) float64 {
	if k == float32Tensor {
		return float64(float32(v))
	}
	return v
}

func (a scalar) with(b scalar, f func(a, b float64) float64) scalar {
	k := max(a.kind, b.kind)
	return scalar{k.round(f(k.round(a.v), k.round(b.v))), k}
}

func (a scalar) plus(b scalar) scalar  { return a.with(b, func(a, b float64) float64 { return a + b }) }
func (a scalar) minus(b scalar) scalar { return a.with(b, func(a, b float64) float64 { return a - b }) }
func (a scalar) times(b scalar) scalar {
	return a.with(b, func(a, b float64) float64 { return float64(a * b) })
}

func (a scalar) over(b scalar) scalar {
	if a.kind == python && b.kind != python {
		return scalar{b.kind.round(1 / b.v), b.kind}.times(a)
	}
	return a.with(b, func(a, b float64) float64 { return a / b })
}

// sqrt uses libtorch's square root for tensors, because with some settings of MKL it is not
// correctly rounded.
func (a scalar) sqrt() scalar {
	switch a.kind {
	case float32Tensor:
		a.v = torch.Full(a.v).Sqrt().Item()
	case float64Tensor:
		a.v = torch.TensorOptions{DType: torch.Float64}.Full(a.v).Sqrt().Item()
	default:
		a.v = math.Sqrt(a.v)
	}
	return a
}

func (a scalar) abs() scalar { return scalar{math.Abs(a.v), a.kind} }

// above reports whether a > b, compared as PyTorch does.
func (a scalar) above(b scalar) bool {
	k := max(a.kind, b.kind)
	return k.round(a.v) > k.round(b.v)
}

// atMost reports whether a <= b.
func (a scalar) atMost(b scalar) bool {
	k := max(a.kind, b.kind)
	return k.round(a.v) <= k.round(b.v)
}

// least and most are Python's min and max of two numbers, which return the first unless the second
// is strictly beyond it.
func least(a, b scalar) scalar {
	if a.above(b) {
		return b
	}
	return a
}

func most(a, b scalar) scalar {
	if b.above(a) {
		return b
	}
	return a
}
