package optim

import "math"

// scalar is a number of a formula that PyTorch computes partly in Python's doubles and partly in tensors without dimensions: an
// operation with a float32 tensor on either side rounds both operands and the result to float32, and others are in float64.
type scalar struct {
	v      float64
	single bool // a float32 tensor
}

func (a scalar) with(b scalar, f func(a, b float64) float64) scalar {
	if !a.single && !b.single {
		return scalar{f(a.v, b.v), false}
	}
	return scalar{float64(float32(f(float64(float32(a.v)), float64(float32(b.v))))), true}
}

func (a scalar) plus(b scalar) scalar  { return a.with(b, func(a, b float64) float64 { return a + b }) }
func (a scalar) minus(b scalar) scalar { return a.with(b, func(a, b float64) float64 { return a - b }) }
func (a scalar) times(b scalar) scalar {
	return a.with(b, func(a, b float64) float64 { return float64(a * b) })
}
func (a scalar) over(b scalar) scalar { return a.with(b, func(a, b float64) float64 { return a / b }) }
func (a scalar) sqrt() scalar {
	a.v = math.Sqrt(a.v)
	if a.single {
		a.v = float64(float32(a.v))
	}
	return a
}
func (a scalar) negative() scalar { return scalar{-a.v, a.single} }
func (a scalar) abs() scalar      { return scalar{math.Abs(a.v), a.single} }

// above tells whether a > b, as compared by PyTorch.
func (a scalar) above(b scalar) bool {
	if a.single || b.single {
		return float32(a.v) > float32(b.v)
	}
	return a.v > b.v
}

// least and most are Python's min and max of two: the first unless the second is beyond it.
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
