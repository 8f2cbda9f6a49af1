package optim

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// The C library's pow is not always correctly rounded, so one value in a hundred may differ in the
// last place.
func TestPowersAreThoseOfPython(t *testing.T) {
	data, err := os.ReadFile("testdata/pow.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][3]float64
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) < 400 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	off := 0
	for _, r := range rows {
		got := roundedmath.Pow(r[0], r[1])
		if got != r[2] {
			off++
		}
		if math.Abs(got-r[2]) > math.Nextafter(r[2], 2*r[2])-r[2] {
			t.Errorf("rounded.Pow(%g, %g) = %.17g, want %.17g", r[0], r[1], got, r[2])
		}
	}
	if off > len(rows)/100 {
		t.Errorf("%d of %d powers differ in their last place, want at most one in a hundred", off, len(rows))
	}
	for _, special := range []struct{ x, y, want float64 }{{0, 3, 0}, {0.5, 0, 1}, {1, 1e300, 1}, {0.9, 1e6, 0},
		{0, -1, math.Inf(1)}} {
		if got := roundedmath.Pow(special.x, special.y); got != special.want {
			t.Errorf("rounded.Pow(%g, %g) = %g, want %g", special.x, special.y, got, special.want)
		}
	}
}

// Python numbers, float32 tensors and float64 tensors are each rounded differently.
func TestScalarsRoundAsPyTorchDoes(t *testing.T) {
	single := func(v float64) scalar { return scalar{float64(float32(v)), float32Tensor} }
	double := func(v float64) scalar { return scalar{v, float64Tensor} }
	for name, test := range map[string]struct{ got, want scalar }{
		"numbers stay double": {num(0.1).plus(num(0.2)), num(0.30000000000000004)},
		"a tensor makes it single": {num(0.1).times(single(3)), scalar{float64(float32(0.1) * 3),
			float32Tensor}},
		"a double tensor stays double":     {num(0.1).minus(double(3)), double(0.1 - 3)},
		"a number over a tensor":           {num(5).over(double(7)), double(0.7142857142857142)},
		"a tensor over a number":           {double(5).over(num(7)), double(5 / 7.0)},
		"the first of equals is the least": {least(num(1), single(1)), num(1)},
		"the first of equals is the most":  {most(single(1), num(1)), single(1)},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, test.got, test.want)
		}
	}
	nan := num(math.NaN())
	if nan.above(num(1)) || nan.atMost(num(1)) || num(1).above(nan) {
		t.Error("NaN compares with 1, want no order")
	}
}
