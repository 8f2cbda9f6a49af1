package roundedmath

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// bigCos is an independent cosine: the Taylor series with 400 bits, without argument reduction.
func bigCos(x float64) float64 {
	const bits = 400
	square := new(big.Float).SetPrec(bits).SetFloat64(x)
	square.Mul(square, square)
	sum, term := big.NewFloat(1).SetPrec(bits), big.NewFloat(1).SetPrec(bits)
	for n := int64(1); n < 200; n++ {
		term.Mul(term, square)
		term.Quo(term, new(big.Float).SetInt64((2*n-1)*(2*n)))
		term.Neg(term)
		sum.Add(sum, term)
	}
	f, _ := sum.Float64()
	return f
}

func TestCosIsCorrectlyRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-40, 40).Draw(t, "x")
		if got, want := Cos(x), bigCos(x); got != want {
			t.Fatalf("Cos(%v) = %x, want %x", x, got, want)
		}
	})
}

func TestCosAtItsEdges(t *testing.T) {
	for _, x := range []float64{0, math.Pi / 4, math.Pi / 2, math.Pi, 3 * math.Pi / 2, 2 * math.Pi, 5e-324, 1e-9} {
		if got, want := Cos(x), bigCos(x); got != want {
			t.Errorf("Cos(%v) = %x, want %x", x, got, want)
		}
	}
	if got := Cos(1e9); math.Abs(got-math.Cos(1e9)) > 1e-12 {
		t.Errorf("Cos(1e9) = %v, want about %v", got, math.Cos(1e9))
	}
	if got := Cos(math.NaN()); !math.IsNaN(got) {
		t.Errorf("Cos(NaN) = %v, want NaN", got)
	}
}
