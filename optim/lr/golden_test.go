package lr

import (
	"encoding/json"
	"math"
	"math/big"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestRatesEqualTransformersToTheLastBit reads testdata/golden.json, which testdata/golden.py wrote.
func TestRatesEqualTransformersToTheLastBit(t *testing.T) {
	var golden struct {
		Cases []struct {
			Kind                 string
			Peak, Warmup, Cycles float64
			Updates              int
			Rates                []string
		}
	}
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) < 100 {
		t.Fatalf("golden.json has %d cases, want at least 100", len(golden.Cases))
	}
	for _, c := range golden.Cases {
		schedule := map[string]Schedule{
			"constant":             Constant{},
			"constant_with_warmup": ConstantWithWarmup{Warmup: c.Warmup},
			"linear":               Linear{Warmup: c.Warmup},
			"cosine":               Cosine{Warmup: c.Warmup, Cycles: c.Cycles},
		}[c.Kind]
		rate := schedule.Plan(c.Peak, c.Updates)
		for update, text := range c.Rates {
			want, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			if got := rate(update); math.Float64bits(got) != math.Float64bits(want) && !(got == 0 && want == 0) {
				t.Errorf("%#v.Plan(%v, %d)(%d) = %x, want %x", schedule, c.Peak, c.Updates, update, got, want)
			}
		}
	}
}

// bigCos is an independent cosine: the Taylor series with 400 bits, without any reduction.
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
		if got, want := cos(x), bigCos(x); got != want {
			t.Fatalf("cos(%v) = %x, want %x", x, got, want)
		}
	})
}

func TestCosAtItsEdges(t *testing.T) {
	for _, x := range []float64{0, math.Pi / 4, math.Pi / 2, math.Pi, 3 * math.Pi / 2, 2 * math.Pi, 5e-324, 1e-9} {
		if got, want := cos(x), bigCos(x); got != want {
			t.Errorf("cos(%v) = %x, want %x", x, got, want)
		}
	}
	if got := cos(1e9); math.Abs(got-math.Cos(1e9)) > 1e-12 {
		t.Errorf("cos(1e9) = %v, want about %v", got, math.Cos(1e9))
	}
	if got := cos(math.NaN()); !math.IsNaN(got) {
		t.Errorf("cos(NaN) = %v, want NaN", got)
	}
}
