// Package roundedmath provides elementary functions whose results are rounded to the nearest
// double. Those of the C library are for nearly all arguments, unlike Go's, so these functions are
// used where results must equal Python's to the last bit. They take about a microsecond.
package roundedmath

import "math"

// ln2 in three parts of 53 bits.
const (
	ln2a = 0x1.62e42fefa39efp-1
	ln2b = 0x1.abc9e3b39803fp-56
	ln2c = 0x1.7b57a079a1934p-111
)

// Pow returns x to the power y, rounded to the nearest double, as the C library that Python uses
// does for all but about one value in 1000. Go's math.Pow is off more often. x must not be
// negative.
func Pow(x, y float64) float64 {
	switch {
	case y == 1:
		return x
	case y == 0 || x == 1:
		return 1
	case !(x > 0) || math.IsInf(x, 0) || math.IsNaN(y) || math.IsInf(y, 0):
		return math.Pow(x, y)
	}
	exponent := logarithm(x).times(dd{y, 0})
	if !(math.Abs(exponent.hi) < 700) { // near overflow and underflow, out of range for any rate
		return math.Pow(x, y)
	}
	return exponential(exponent).nearest()
}

// Log returns the natural logarithm of x, rounded to the nearest double.
func Log(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return math.Log(x)
	}
	return logarithm(x).nearest()
}

// logarithm sums 2*atanh((m-1)/(m+1)) for x = m * 2^e, with m between the square roots of 1/2 and
// 2.
func logarithm(x float64) dd {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := dd{m - 1, 0}.dividedBy(sum(m, 1))
	square := s.times(s)
	const terms = 23 // 0.1716^(2*23) is below 2^-116
	series := dd{}
	for n := terms; n >= 0; n-- {
		series = dd{1, 0}.over(float64(2*n + 1)).add(square.times(series))
	}
	series = series.times(s)
	k := float64(e)
	whole := mul(k, ln2a).add(mul(k, ln2b)).add(mul(k, ln2c))
	return whole.add(dd{2 * series.hi, 2 * series.lo})
}

// exponential sums the Taylor series of e^r for x = k*ln2 + r.
func exponential(x dd) dd {
	k := math.RoundToEven(x.hi / ln2a)
	r := x.sub(mul(k, ln2a)).sub(mul(k, ln2b)).sub(mul(k, ln2c))
	const terms = 27 // (ln2/2)^28/28! is below 2^-140
	series := dd{1, 0}
	for n := terms; n >= 1; n-- {
		series = dd{1, 0}.add(r.times(series).over(float64(n)))
	}
	scale := int(k)
	return dd{math.Ldexp(series.hi, scale), math.Ldexp(series.lo, scale)}
}

// nearest rounds to a double. A number this close to the midpoint of two doubles is taken to be the
// midpoint, as powers of short numbers such as 1.25 can be: the error of the series in lo must not
// decide, so ties round to even.
func (a dd) nearest() float64 {
	other := math.Nextafter(a.hi, math.Copysign(math.Inf(1), a.lo))
	fromMiddle := math.Abs(a.lo) - math.Abs(other-a.hi)/2
	if math.Abs(fromMiddle) > 0x1p-96*math.Abs(a.hi) || math.Float64bits(a.hi)&1 == 0 {
		return a.hi
	}
	return other
}

// sum returns a+b without rounding.
func sum(a, b float64) dd {
	s := float64(a + b)
	v := float64(s - a)
	return dd{s, float64(float64(a-float64(s-v)) + float64(b-v))}
}
