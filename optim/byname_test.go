package optim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// recorded is the content of testdata/byname.json.
type recorded struct {
	Names []string
	Cases []struct {
		Name      string
		Arguments map[string]float64
		OptimArgs string `json:"optim_args"`
	}
	Moved []struct {
		Optimizer, Schedule string
		Rates, Momenta      []string
	}
}

func readRecorded(t *testing.T) (r recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/byname.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func arguments(t *testing.T, given map[string]float64, optimArgs string) optim.Arguments {
	t.Helper()
	a := optim.Arguments{OptimArgs: optimArgs}
	for name, v := range given {
		switch name {
		case "learning_rate":
			a.LearningRate = v
		case "weight_decay":
			a.WeightDecay = v
		case "adam_beta1":
			a.AdamBeta1 = &v
		case "adam_beta2":
			a.AdamBeta2 = &v
		case "adam_epsilon":
			a.AdamEpsilon = &v
		default:
			t.Fatalf("the golden file has an argument %q", name)
		}
	}
	return a
}

// two returns the parameters of testdata/byname.py in the Trainer's two groups.
func two(g *golden.File) (weight, bias torch.Tensor, groups []optim.Group) {
	weight, bias = g.Tensor("init.weight").Clone().RequiresGrad(), g.Tensor("init.bias").Clone().RequiresGrad()
	return weight, bias, []optim.Group{
		{Params: []torch.Named{{Name: "weight", Tensor: weight}}},
		{Params: []torch.Named{{Name: "bias", Tensor: bias}}, WeightDecay: new(0.0)},
	}
}

func TestNamedOptimizersBitsEqualTransformers(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/byname.safetensors")
	for i, c := range readRecorded(t).Cases {
		t.Run(c.Name+" "+c.OptimArgs, func(t *testing.T) {
			builder, err := optim.ByName(c.Name, arguments(t, c.Arguments, c.OptimArgs))
			if err != nil {
				t.Fatal(err)
			}
			weight, bias, groups := two(g)
			o, err := builder.Build(groups)
			if err != nil {
				t.Fatal(err)
			}
			for k := range 6 {
				weight.SetGrad(g.Tensor(fmt.Sprintf("grad.%d.weight", k)).Clone())
				bias.SetGrad(g.Tensor(fmt.Sprintf("grad.%d.bias", k)).Clone())
				o.Step(builder.LearningRate())
			}
			golden.Recorded(t, "weight", weight, g.Tensor(fmt.Sprintf("case.%d.weight", i)))
			golden.Recorded(t, "bias", bias, g.Tensor(fmt.Sprintf("case.%d.bias", i)))
		})
	}
}

func TestEveryNameOfTransformersIsMadeOrRefusedWithAReason(t *testing.T) {
	names := readRecorded(t).Names
	if len(names) < 40 {
		t.Fatalf("%d names are recorded; transformers has more", len(names))
	}
	made := 0
	for _, name := range names {
		b, err := optim.ByName(name, optim.Arguments{})
		switch {
		case err == nil && b != nil:
			made++
		case !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), "is not available: "):
			t.Errorf("ByName(%q): %v; want the reason why it is not available", name, err)
		}
	}
	if want := len(names) - 5; made != want {
		t.Errorf("%d of the names are made, want %d", made, want)
	}
	for _, name := range optim.Names() {
		if b, err := optim.ByName(name, optim.Arguments{LearningRate: 0.25}); err != nil || b.LearningRate() != 0.25 {
			t.Errorf("ByName(%q): %v, %v; want rate 0.25", name, b, err)
		}
	}
}

func TestByNameRefuses(t *testing.T) {
	for _, c := range []struct{ claim, name, args, want string }{
		{"a name that nobody knows", "adamv", "", `no optimizer "adamv"; want one of adadelta, adafactor`},
		{"text that is no setting", "sgd", "momentum", "key=value"},
		{"a value with a second sign", "sgd", "momentum=0.9=1", "key=value"},
		{"an empty setting", "sgd", "momentum=0.9,", "key=value"},
		{"a setting given twice", "sgd", "momentum=0.9,momentum=0.8", "twice"},
		{"a setting of another optimizer", "sgd", "alpha=0.9", `"alpha"; it takes momentum, dampening, nesterov`},
		{"a setting where there is none", "adamw_torch", "momentum=0.9", "it takes none"},
		{"a decay that the groups override", "sgd", "weight_decay=0.1", "set Arguments.WeightDecay"},
		{"a number that is none", "rmsprop", "alpha=much", `alpha is "much"; want a number`},
		{"a flag that is none", "sgd", "nesterov=perhaps", "want true or false"},
		{"a rank that is none", "galore_adamw", "rank=-3", "positive integer"},
		{"an unknown projection", "galore_adamw", "proj_type=up", "reverse_std"},
	} {
		b, err := optim.ByName(c.name, optim.Arguments{OptimArgs: c.args})
		if b != nil || !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: ByName(%q, %q) = %v, %v; want an error with %q", c.claim, c.name, c.args, b, err, c.want)
		}
	}
	if _, err := optim.ByName("rprop", optim.Arguments{WeightDecay: 0.1}); err == nil {
		t.Error("rprop takes a weight decay, which it has not")
	}
}

func FuzzByName(f *testing.F) {
	for _, s := range []string{"", "momentum=0.9", " a = b , c=d", "=,=", "nesterov=TRUE,dampening=nan"} {
		f.Add("sgd", s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		b, err := optim.ByName(name, optim.Arguments{OptimArgs: text})
		if (b == nil) == (err == nil) {
			t.Errorf("ByName(%q, %q) = %v, %v; want either a builder or an error", name, text, b, err)
		}
		if err != nil && !errors.Is(err, optim.ErrOption) {
			t.Errorf("ByName(%q, %q): %v is no ErrOption", name, text, err)
		}
	})
}

func hex(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMovedMomentumBitsEqualPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/byname.safetensors")
	builders := map[string]optim.Builder{
		"AdamW": optim.AdamW{}, "Adam": optim.Adam{Implementation: optim.PyTorchDefault},
		"SGD":         optim.SGD{Momentum: 0.9, Nesterov: true, Implementation: optim.ForLoop},
		"SGD without": optim.SGD{}, "RMSprop": optim.RMSprop{Momentum: 0.5, Centered: true},
		"RMSprop without": optim.RMSprop{},
		"NAdam":           optim.NAdam{}, "RAdam": optim.RAdam{}, "Adamax": optim.Adamax{},
	}
	moved := readRecorded(t).Moved
	if len(moved) != 2*len(builders) {
		t.Fatalf("%d runs are recorded, want %d", len(moved), 2*len(builders))
	}
	for _, c := range moved {
		t.Run(c.Optimizer+" "+c.Schedule, func(t *testing.T) {
			// The second half is made by a new optimizer, which continues from the first one's
			// state.
			weight, bias, _ := two(g)
			build := func() optim.Optimizer {
				o, err := builders[c.Optimizer].Build([]optim.Group{{Params: []torch.Named{{Name: "weight",
					Tensor: weight}, {Name: "bias", Tensor: bias}}}})
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			o := build()
			for k := range c.Rates {
				if k == 3 {
					next := build()
					if err := next.(optim.MomentumSetter).SetMomentum(hex(t, c.Momenta[k-1])); err != nil {
						t.Fatal(err)
					}
					if err := next.LoadState(o.State(), o.Updates()); err != nil {
						t.Fatal(err)
					}
					o = next
				}
				weight.SetGrad(g.Tensor(fmt.Sprintf("grad.%d.weight", k)).Clone())
				bias.SetGrad(g.Tensor(fmt.Sprintf("grad.%d.bias", k)).Clone())
				if err := o.(optim.MomentumSetter).SetMomentum(hex(t, c.Momenta[k])); err != nil {
					t.Fatal(err)
				}
				o.Step(hex(t, c.Rates[k]))
			}
			golden.Recorded(t, "weight", weight, g.Tensor(c.Optimizer+"."+c.Schedule+".weight"))
			golden.Recorded(t, "bias", bias, g.Tensor(c.Optimizer+"."+c.Schedule+".bias"))
			_, groups, err := optim.ToPyTorch(o)
			if want := strconv.FormatFloat(hex(t, c.Momenta[len(c.Momenta)-1]), 'g', -1, 64); err != nil ||
				!strings.Contains(string(groups), want) {
				t.Errorf("PyTorch's groups %s (%v) do not have the last momentum %s", groups, err, want)
			}
		})
	}
}

func TestMomentumThatCannotBeMoved(t *testing.T) {
	testenv.RequireTorch(t)
	p := []torch.Named{{Name: "p", Tensor: torch.Ones(2).RequiresGrad()}}
	used := optim.NewRMSprop(p, optim.RMSprop{})
	p[0].Tensor.SetGrad(torch.Ones(2))
	used.Step(0.1)
	for _, c := range []struct {
		claim string
		o     optim.Optimizer
		v     float64
		want  string
	}{
		{"an optimizer without one", optim.NewAdagrad(p, optim.Adagrad{}), 0.9, "Adagrad has neither"},
		{"a beta of one", optim.NewAdamW(p, optim.AdamW{}), 1, "below 1"},
		{"a negative one", optim.NewSGD(p, optim.SGD{Momentum: 0.9}), -0.1, "not negative"},
		{"none after some", optim.NewSGD(p, optim.SGD{Momentum: 0.9}), 0, "would become 0"},
		{"one after updates without", used, 0.9, "made without momentum and has made 1 updates"},
	} {
		err := c.o.(optim.MomentumSetter).SetMomentum(c.v)
		if !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: SetMomentum(%g): %v; want an error with %q", c.claim, c.v, err, c.want)
		}
	}
	if !slices.IsSorted(optim.Names()) {
		t.Error("Names are not sorted")
	}
}
