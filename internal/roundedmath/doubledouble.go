package roundedmath

import "math"

// dd is a number in double-double arithmetic: the unevaluated sum hi+lo, with |lo| at most half a
// unit in the last place of hi, which has about 104 bits. Computing in it and then truncating to hi
// rounds only once, as if the computation were exact.
type dd struct{ hi, lo float64 }

// The conversions to float64 prevent the compiler from fusing multiplication and addition, which
// would change the rounding.

func mul(a, b float64) dd {
	p := float64(a * b)
	return dd{p, math.FMA(a, b, -p)}
}

func (a dd) sub(b dd) dd {
	s := float64(a.hi - b.hi)
	v := float64(s - a.hi)
	e := float64(float64(a.hi-float64(s-v)) - float64(b.hi+v))
	return quick(s, float64(e+float64(a.lo-b.lo)))
}

func (a dd) times(b dd) dd {
	p := mul(a.hi, b.hi)
	return quick(p.hi, float64(p.lo+float64(float64(a.hi*b.lo)+float64(a.lo*b.hi))))
}

func (a dd) over(d float64) dd {
	q := float64(a.hi / d)
	p := mul(q, d)
	rest := float64(float64(float64(a.hi-p.hi)-p.lo) + a.lo)
	return quick(q, float64(rest/d))
}

func quick(hi, lo float64) dd {
	s := float64(hi + lo)
	return dd{s, float64(lo - float64(s-hi))}
}

func (a dd) add(b dd) dd { return a.sub(dd{-b.hi, -b.lo}) }

func (a dd) dividedBy(b dd) dd {
	q := float64(a.hi / b.hi)
	rest := a.sub(b.times(dd{q, 0}))
	return quick(q, float64(rest.hi/b.hi))
}
