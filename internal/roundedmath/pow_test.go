package roundedmath

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// bigPow is an independent power: n multiplications with 400 bits.
func bigPow(x float64, n int) float64 {
	product := big.NewFloat(1).SetPrec(400)
	for range n {
		product.Mul(product, new(big.Float).SetPrec(400).SetFloat64(x))
	}
	f, _ := product.Float64()
	return f
}

func TestPowIsCorrectlyRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, n := rapid.Float64Range(0.1, 3).Draw(t, "x"), rapid.IntRange(0, 200).Draw(t, "n")
		if got, want := Pow(x, float64(n)), bigPow(x, n); got != want {
			t.Fatalf("Pow(%v, %d) = %x, want %x", x, n, got, want)
		}
	})
}

// The square of a 27-bit number is often the midpoint of two doubles; then it must round to even.
func TestPowInTheMiddleOfTwoDoublesIsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Ldexp(float64(rapid.IntRange(1<<26, 1<<27-1).Draw(t, "x")), -27)
		if got, want := Pow(x, 2), x*x; got != want {
			t.Fatalf("Pow(%v, 2) = %x, want %x", x, got, want)
		}
		short := math.Ldexp(float64(rapid.IntRange(1<<17, 1<<18-1).Draw(t, "short")), -18)
		if got, want := Pow(short, 3), bigPow(short, 3); got != want {
			t.Fatalf("Pow(%v, 3) = %x, want %x", short, got, want)
		}
	})
}

func TestPowOfOneHalfIsTheSquareRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-12, 1e12).Draw(t, "x")
		if got, want := Pow(x, 0.5), math.Sqrt(x); got != want {
			t.Fatalf("Pow(%v, 0.5) = %x, want %x", x, got, want)
		}
	})
}

func TestLogUndoesTheExponential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-6, 1e6).Draw(t, "x")
		if got := exponential(logarithm(x)).hi; got != x {
			t.Fatalf("exp(Log(%v)) = %x, want %x", x, got, x)
		}
		if got, want := Log(x), math.Log(x); math.Abs(got-want) > 1e-14*max(1, math.Abs(want)) {
			t.Fatalf("Log(%v) = %v, want about %v", x, got, want)
		}
	})
}

func TestPowAtItsEdges(t *testing.T) {
	for _, c := range []struct{ x, y, want float64 }{
		{0, 2, 0}, {0, 0, 1}, {1, 1e300, 1}, {5, 0, 1}, {5, 1, 5}, {2, -3, 0.125}, {0.5, 2000, 0},
		{2, 2000, math.Inf(1)}, {math.Inf(1), 2, math.Inf(1)}, {0.25, 0.5, 0.5},
	} {
		if got := Pow(c.x, c.y); got != c.want {
			t.Errorf("Pow(%v, %v) = %v, want %v", c.x, c.y, got, c.want)
		}
	}
	for _, c := range []struct{ x, y float64 }{{-1, 0.5}, {math.NaN(), 2}, {2, math.NaN()}} {
		if got := Pow(c.x, c.y); !math.IsNaN(got) {
			t.Errorf("Pow(%v, %v) = %v, want NaN", c.x, c.y, got)
		}
	}
	if got := Log(-1); !math.IsNaN(got) {
		t.Errorf("Log(-1) = %v, want NaN", got)
	}
}
