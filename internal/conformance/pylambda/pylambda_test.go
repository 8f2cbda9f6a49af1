package pylambda_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/internal/conformance/pylambda"
)

func TestParseMeansWhatPythonMeans(t *testing.T) {
	for _, c := range []struct {
		text    string
		x, want float64
	}{
		{"lambda epoch: 0.95 ** epoch", 2, 0.9025},
		{"lambda x: 2 * 3 ** x", 2, 18},
		{"lambda x: -x ** 2", 3, -9},
		{"lambda x: 2 ** -x", 1, 0.5},
		{"lambda x: 2 ** 3 ** x", 2, 512},
		{"lambda x: (1 + x) ** (x - 1)", 3, 16},
		{"lambda x1: 1 / (1 + x1 / 100)", 100, 0.5},
		{"lambda epoch: 0.5 ** (epoch // 30)", 59, 0.5},
		{"lambda x: -7 // 2 + -7 % 3 + x", 0, -2},
		{"lambda epoch: 0.9 if epoch % 2 else 1.1", 3, 0.9},
		{"lambda epoch: 0.1 if 3 <= epoch < 6 else 1.0", 6, 1},
		{"lambda x: not x or x > 4 and x != 5", 5, 0},
		{"lambda x: min(1.0, (x + 1) / 10) * max(0, 1 - x/10)", 4, 0.3},
		{"lambda x: 0.5 * (1 + math.cos(math.pi * x / 10))", 10, 0},
		{"lambda x: math.sqrt(x) + abs(-x) + float(int(2.5e0))", 4, 8},
		{"lambda _: 0.7", 3, 0.7},
		{"0.95 ** epoch", 2, 0.9025},
		{"1 / (1 + x) if x else 3", 0, 3},
		{"lambda n: max(0.1, 1 - n / T)", 5, 0.5},
		{"n / T + T", 5, 10.5},
		{"lambda n: 1", 4, 1},
		{"min((n + 1) ** -0.5, (n + 1) * 4 ** -1.5)", 0, 0.125},
		{"lambda T: T", 3, 3},
		{"T", 0, math.NaN()},
		{"lambda x: x * * 2", 0, math.NaN()},
		{"lambda x: min()", 0, math.NaN()},
		{"lambda x: sqrt(x, x)", 0, math.NaN()},
		{"lambda x: 1 if x", 0, math.NaN()},
		{"lambda x: (x", 0, math.NaN()},
		{"lambda x: x; x", 0, math.NaN()},
		{"lambda x", 0, math.NaN()},
		{"x + y", 0, math.NaN()},
		{"lambda x: x + y", 0, math.NaN()},
		{"lambda x: f(x)", 0, math.NaN()},
		{"lambda x: x ^ 2", 0, math.NaN()},
		{"0.95", 0, math.NaN()},
	} {
		f, err := pylambda.Parse(c.text, map[string]float64{"T": 10})
		if math.IsNaN(c.want) {
			if err == nil {
				t.Errorf("%s is understood, want an error", c.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if got := f(c.x); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("(%s)(%v) = %v, want %v", c.text, c.x, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("lambda x: -(1 + x) ** 2 / 3")
	f.Add("lambda x: ** **")
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := pylambda.Parse(text, map[string]float64{"T": 2}); err == nil {
			g(1)
		}
	})
}

func ExampleParse() {
	f, err := pylambda.Parse("lambda n: 1.0 if n < 3 else 1 - n / T", map[string]float64{"T": 8})
	fmt.Println(f(2), f(4), err)
	// Output: 1 0.5 <nil>
}
