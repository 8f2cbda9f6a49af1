package roundedmath

import "math"

// Cos returns the cosine of x, rounded to the nearest double. The C library that Python uses does
// the same for all but about one value in 700; Go's math.Cos is off by one unit in the last place
// far more often.
func Cos(x float64) float64 {
	x = math.Abs(x)
	if !(x < 1e8) { // beyond any schedule; the reduction below loses its accuracy
		return math.Cos(x)
	}
	// x = k*(pi/2) + r with |r| <= pi/4. Pi/2 is split into three parts of 53 bits each.
	const (
		p1 = 0x1.921fb54442d18p+0
		p2 = 0x1.1a62633145c07p-54
		p3 = -0x1.f1976b7ed8fbcp-110
	)
	k := math.RoundToEven(x / p1)
	r := dd{x, 0}.sub(mul(k, p1)).sub(mul(k, p2)).sub(mul(k, p3))
	switch int64(k) & 3 {
	case 0:
		return r.series(1)
	case 1:
		return -r.series(0)
	case 2:
		return -r.series(1)
	default:
		return r.series(0)
	}
}

// series sums the Taylor series of cos (even=1) or sin (even=0), smallest term first.
func (a dd) series(even int) float64 {
	const terms = 14 // (pi/4)^28/28! is below 2^-107
	square := a.times(a)
	sum := dd{1, 0}
	for n := terms; n >= 1; n-- {
		first, second := float64(2*n-even), float64(2*n+1-even) // cos: (2n-1)(2n); sin: (2n)(2n+1)
		term := square.times(sum).over(first * second)
		sum = dd{1, 0}.sub(term)
	}
	if even == 0 {
		sum = sum.times(a)
	}
	return sum.hi
}
