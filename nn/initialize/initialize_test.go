package initialize_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// cases are the cases of testdata/initialize.py.
var cases = map[string]func(t torch.Tensor, g *torch.Generator) torch.Tensor{
	"uniform": func(t torch.Tensor, g *torch.Generator) torch.Tensor { return initialize.Uniform(t, -0.3, 0.7, g) },
	"normal":  func(t torch.Tensor, g *torch.Generator) torch.Tensor { return initialize.Normal(t, 0.5, 0.02, g) },
	"trunc_normal": func(t torch.Tensor, g *torch.Generator) torch.Tensor {
		return initialize.TruncNormal(t, 0.1, 0.5, -1, 0.75, g)
	},
	"trunc_normal_default": func(t torch.Tensor, g *torch.Generator) torch.Tensor {
		return initialize.TruncNormal(t, 0, 1, -2, 2, g)
	},
	"constant": func(t torch.Tensor, _ *torch.Generator) torch.Tensor { return initialize.Constant(t, 0.3) },
	"zeros":    func(t torch.Tensor, _ *torch.Generator) torch.Tensor { return initialize.Zeros(t) },
	"ones":     func(t torch.Tensor, _ *torch.Generator) torch.Tensor { return initialize.Ones(t) },
	"xavier_uniform": func(t torch.Tensor, g *torch.Generator) torch.Tensor {
		return initialize.XavierUniform(t, 1.5, g)
	},
	"xavier_normal": func(t torch.Tensor, g *torch.Generator) torch.Tensor { return initialize.XavierNormal(t, 1, g) },
	"orthogonal":    func(t torch.Tensor, g *torch.Generator) torch.Tensor { return initialize.Orthogonal(t, 0.7, g) },
	"kaiming_uniform": func(t torch.Tensor, g *torch.Generator) torch.Tensor {
		return initialize.KaimingUniform(t, initialize.KaimingOptions{A: math.Sqrt(5), Generator: g})
	},
	"kaiming_uniform_default": func(t torch.Tensor, g *torch.Generator) torch.Tensor {
		return initialize.KaimingUniform(t, initialize.KaimingOptions{Generator: g})
	},
	"kaiming_normal": func(t torch.Tensor, g *torch.Generator) torch.Tensor {
		return initialize.KaimingNormal(t, initialize.KaimingOptions{Mode: initialize.FanOut,
			Nonlinearity: initialize.ReLU, Generator: g})
	},
	"kaiming_normal_tanh": func(t torch.Tensor, g *torch.Generator) torch.Tensor {
		return initialize.KaimingNormal(t, initialize.KaimingOptions{Nonlinearity: initialize.Tanh, Generator: g})
	},
}

var shapes = [][]int64{{5, 3}, {3, 5}, {4, 3, 2, 2}, {40, 33}}

func TestDrawsAreThoseOfPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/initialize.safetensors")
	if want := 2 * len(cases) * len(shapes); len(g.Names()) != want {
		t.Errorf("the golden file has %d tensors, the table %d", len(g.Names()), want)
	}
	for name, f := range cases {
		for i, shape := range shapes {
			file := fmt.Sprintf("%s.%d", name, i)
			for _, own := range []bool{false, true} { // the default generator and a separate one
				t.Run(fmt.Sprintf("%s/%v/own generator %t", name, shape, own), func(t *testing.T) {
					goldencount.Start(t, "initializers", file)
					var generator *torch.Generator
					if own {
						generator = torch.NewGenerator(7)
						torch.ManualSeed(1)
					} else {
						torch.ManualSeed(7)
					}
					got := f(torch.Empty(shape...).RequiresGrad(), generator)
					if !got.IsLeaf() || !got.NeedsGrad() {
						t.Error("the tensor is no leaf that gets a gradient any more")
					}
					golden.Recorded(t, file, got, g.Tensor(file))
					next := torch.TensorOptions{DType: torch.Int64}.Empty([]int64{}...).Random_(generator)
					golden.Bits(t, "the generator's next number", next, g.Tensor(file+".next"))
				})
			}
		}
	}
	var meta struct {
		Gains map[initialize.Nonlinearity]float64
	}
	if err := json.Unmarshal([]byte(g.Metadata["case"]), &meta); err != nil || len(meta.Gains) != 6 {
		t.Fatalf("%d gains: %v", len(meta.Gains), err)
	}
	for n, want := range meta.Gains {
		if got := initialize.CalculateGain(n, 0.01); got != want {
			t.Errorf("CalculateGain(%s, 0.01) = %v, want %v", n, got, want)
		}
	}
}

// The expected values were computed with PyTorch 2.11.
func TestPatternsAreThoseOfPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	ones := func(w torch.Tensor) []int64 {
		assert.Equal(t, float64(w.NonZero().Size(0)), w.Sum(0).Item(), "all others are 0")
		return torch.Values[int64](w.NonZero())
	}
	garbage := func(shape ...int64) torch.Tensor { return torch.Full(7.0, shape...).RequiresGrad() }
	assert.Equal(t, []int64{0, 0, 1, 1}, ones(initialize.Eye(garbage(2, 3))))
	assert.Equal(t, []int64{0, 0, 1, 1}, ones(initialize.Eye(garbage(3, 2))))
	assert.Equal(t, []int64{0, 0, 1, 1, 1, 1, 3, 0, 1, 4, 1, 1}, ones(initialize.Dirac(garbage(6, 2, 3), 2)))
	assert.Equal(t, []int64{0, 0, 2, 2, 1, 1, 2, 2}, ones(initialize.Dirac(garbage(2, 3, 4, 5), 0)))
	assert.Equal(t, []int64{0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 2, 0, 0, 1, 1},
		ones(initialize.Dirac(garbage(3, 2, 1, 2, 3), 3)))

	want := []float32{0, -0.30191078782081604, 0, 0.33376213908195496, 0, 0.9713917374610901, 0, -0.3812785744667053,
		0.3156067132949829, -0.449567586183548, 0, 0}
	torch.ManualSeed(5)
	assert.Equal(t, want, torch.Values[float32](initialize.Sparse(garbage(4, 3), 0.3, 0.5, nil)))
	assert.Equal(t, float32(0.4884120225906372), torch.Values[float32](torch.Rand(1))[0], "the next random number")
	torch.ManualSeed(6)
	own := torch.NewGenerator(5)
	assert.Equal(t, want, torch.Values[float32](initialize.Sparse(garbage(4, 3), 0.3, 0.5, own)))
	assert.Empty(t, torch.Values[float32](initialize.Sparse(torch.Empty(0, 3), 0.3, 0.5, nil)))
}

func TestMistakesAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	vector := torch.Zeros(3)
	for name, f := range map[string]func(){
		"a fan needs two dimensions":      func() { initialize.XavierUniform(vector, 1, nil) },
		"orthogonal needs two dimensions": func() { initialize.Orthogonal(vector, 1, nil) },
		"the nonlinearity must be known":  func() { initialize.CalculateGain("swish", 0) },
		"Kaiming's nonlinearity is checked": func() {
			initialize.KaimingNormal(torch.Zeros(2, 2), initialize.KaimingOptions{Nonlinearity: "swish"})
		},
		"an identity is a matrix":          func() { initialize.Eye(vector) },
		"a sparse weight is a matrix":      func() { initialize.Sparse(vector, 0.1, 0.01, nil) },
		"the share of zeros is one":        func() { initialize.Sparse(torch.Zeros(2, 2), 1.5, 0.01, nil) },
		"the share of zeros is a number":   func() { initialize.Sparse(torch.Zeros(2, 2), math.NaN(), 0.01, nil) },
		"a convolution has space":          func() { initialize.Dirac(torch.Zeros(2, 2), 0) },
		"groups divide the channels":       func() { initialize.Dirac(torch.Zeros(3, 2, 1), 2) },
		"there are no groups of minus one": func() { initialize.Dirac(torch.Zeros(3, 2, 1), -1) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := torch.Try(f); !errors.Is(err, torch.ErrValue) {
				t.Errorf("got %v, want ErrValue", err)
			}
		})
	}
}

func TestEmptyTensorsStayEmpty(t *testing.T) {
	testenv.RequireTorch(t)
	before := torch.DefaultGenerator(torch.CPU).State()
	initialize.KaimingUniform(torch.Empty(0, 3), initialize.KaimingOptions{})
	initialize.KaimingNormal(torch.Empty(3, 0), initialize.KaimingOptions{})
	initialize.Orthogonal(torch.Empty(0, 3), 1, nil)
	if string(before) != string(torch.DefaultGenerator(torch.CPU).State()) {
		t.Error("an empty tensor took numbers from the generator")
	}
}

func Example() {
	weight, bias := torch.Empty(8, 3, 3, 3).RequiresGrad(), torch.Empty(8).RequiresGrad()
	initialize.KaimingNormal(weight, initialize.KaimingOptions{Mode: initialize.FanOut, Nonlinearity: initialize.ReLU})
	initialize.Zeros(bias)
	in, out := initialize.Fans(weight)
	fmt.Printf("fan in %d, fan out %d, mean of the bias %g\n", in, out, bias.Mean(0).Item())
	// Output: fan in 27, fan out 72, mean of the bias 0
}
