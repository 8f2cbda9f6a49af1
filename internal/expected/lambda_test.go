package expected

import (
	"math"
	"testing"
)

func TestLambdasMeanWhatPythonMeans(t *testing.T) {
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
		f, err := parseLambda(c.text)
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

func FuzzParseLambda(f *testing.F) {
	f.Add("lambda x: -(1 + x) ** 2 / 3")
	f.Add("lambda x: ** **")
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := parseLambda(text); err == nil {
			g(1)
		}
	})
}

func TestArchitecturesAreReadStrictly(t *testing.T) {
	const end = "; no padding, stride 1; eval mode"
	for _, text := range []string{"relu", "conv1(1,8) relu" + end, "conv1(1,8,3)x" + end, "fc1(0,2)" + end, "batchnorm1d norm1" + end, "tanh" + end, "relu; padding 1"} {
		if _, err := parseArchitecture(text); err == nil {
			t.Errorf("%q is understood, want an error", text)
		}
	}
}
