package initialize_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

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

// cases are those of testdata/initialize.py.
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
			for _, own := range []bool{false, true} { // the default generator, and one of our own
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
