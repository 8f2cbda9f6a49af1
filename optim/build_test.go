package optim_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

func param(name string, shape ...int64) torch.Named {
	return torch.Named{Name: name, Tensor: torch.Ones(shape...).RequiresGrad()}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name    string
		builder optim.Builder
		says    string
	}{
		{"a negative rate", optim.AdamW{LR: -1}, "AdamW.LR is -1"},
		{"a rate that is NaN", optim.Adam{LR: nan}, "Adam.LR is NaN"},
		{"an infinite rate", optim.SGD{LR: inf}, "SGD.LR is +Inf"},
		{"Beta1 of 1", optim.AdamW{Beta1: new(1.0)}, "AdamW.Beta1 is 1; want 0 <= Beta1 < 1"},
		{"Beta2 below zero", optim.Adam{Beta2: new(-0.1)}, "Adam.Beta2 is -0.1"},
		{"Beta2 that is NaN", optim.Adam{Beta2: new(nan)}, "Adam.Beta2 is NaN"},
		{"Eps below zero", optim.AdamW{Eps: new(-1e-9)}, "AdamW.Eps is -1e-09"},
		{"decay below zero", optim.AdamW{WeightDecay: new(-0.1)}, "AdamW.WeightDecay is -0.1"},
		{"decay that is infinite", optim.SGD{WeightDecay: new(inf)}, "SGD.WeightDecay is +Inf"},
		{"momentum below zero", optim.SGD{Momentum: -0.9}, "SGD.Momentum is -0.9"},
		{"dampening that is NaN", optim.SGD{Momentum: 0.9, Dampening: nan}, "SGD.Dampening is NaN"},
		{"Nesterov without momentum", optim.SGD{Nesterov: true}, "Nesterov is set with Momentum 0"},
		{"Nesterov with dampening", optim.SGD{Nesterov: true, Momentum: 0.9, Dampening: 0.1}, "Dampening 0.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opt, err := test.builder.Build([]optim.Group{{Params: []torch.Named{param("w", 2)}}})
			if !errors.Is(err, optim.ErrOption) || opt != nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Build = %v, %v, want no optimizer and ErrOption that says %q", opt, err, test.says)
			}
		})
	}
}

func TestGroupsThatCannotWorkAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	w, freed := param("w", 2), param("freed", 2)
	freed.Tensor.Free()
	tests := []struct {
		name   string
		groups []optim.Group
		kind   error
		says   string
	}{
		{"no groups", nil, optim.ErrParam, "no parameters"},
		{"a group without parameters", []optim.Group{{}}, optim.ErrParam, "no parameters"},
		{"a parameter without name", []optim.Group{{Params: []torch.Named{w, {Tensor: w.Tensor}}}}, optim.ErrParam,
			"parameter 1 of group 0 has no name"},
		{"a name twice", []optim.Group{{Params: []torch.Named{w}}, {Name: "b", Params: []torch.Named{param("w", 3)}}},
			optim.ErrParam, `parameter "w" of group "b" was given before`},
		{"a tensor twice", []optim.Group{{Params: []torch.Named{w}},
			{Params: []torch.Named{{Name: "v", Tensor: w.Tensor}}}}, optim.ErrParam,
			`"w" and "v" are one and the same`},
		{"an undefined tensor", []optim.Group{{Params: []torch.Named{{Name: "u"}}}}, optim.ErrParam,
			`"u" of group 0 is undefined`},
		{"a freed tensor", []optim.Group{{Params: []torch.Named{freed}}}, optim.ErrParam, "freed"},
		{"integers", []optim.Group{{Params: []torch.Named{{Name: "i", Tensor: torch.From([]int64{1})}}}},
			optim.ErrParam, "dtype int64"},
		{"a result of an operator",
			[]optim.Group{{Params: []torch.Named{{Name: "r", Tensor: w.Tensor.MulScalar(2.0)}}}}, optim.ErrParam,
			"not a leaf"},
		{"a negative scale", []optim.Group{{Name: "head", LRScale: -1, Params: []torch.Named{w}}}, optim.ErrOption,
			`LRScale of group "head" is -1`},
		{"a scale that is NaN", []optim.Group{{LRScale: math.NaN(), Params: []torch.Named{w}}}, optim.ErrOption,
			"LRScale of group 0 is NaN"},
		{"a negative decay", []optim.Group{{WeightDecay: new(-1.0), Params: []torch.Named{w}}}, optim.ErrOption,
			"WeightDecay of group 0 is -1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opt, err := optim.AdamW{}.Build(test.groups)
			if !errors.Is(err, test.kind) || opt != nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Build = %v, %v, want no optimizer and %v that says %q", opt, err, test.kind, test.says)
			}
		})
	}
}

// A recipe keeps its groups even if the whole model is frozen. PyTorch accepts them, too.
func TestSeveralGroupsMayAllBeEmpty(t *testing.T) {
	testenv.RequireTorch(t)
	for _, b := range []optim.Builder{optim.AdamW{}, optim.SGD{Momentum: 0.9}, optim.Adagrad{},
		optim.AdamW{Implementation: optim.Foreach}} {
		opt, err := b.Build([]optim.Group{{}, {WeightDecay: new(0.0)}})
		if err != nil {
			t.Fatal(err)
		}
		opt.Step(0.1)
		opt.ZeroGrad()
		if opt.Updates() != 1 || len(opt.State()) != 0 || len(opt.Groups()) != 2 {
			t.Errorf("%T: %d updates, state %v, %d groups; want 1, nothing, 2", b, opt.Updates(), opt.State(),
				len(opt.Groups()))
		}
	}
}

func TestConstructorsPanicWithTorchErrors(t *testing.T) {
	testenv.RequireTorch(t)
	params := []torch.Named{param("w", 2)}
	tests := []struct {
		name string
		f    func()
		op   string
		code torch.Code
	}{
		{"AdamW", func() { optim.NewAdamW(params, optim.AdamW{LR: -1}) }, "optim.NewAdamW", torch.ErrValue},
		{"Adam", func() { optim.NewAdam(nil, optim.Adam{}) }, "optim.NewAdam", torch.ErrInvalid},
		{"SGD", func() { optim.NewSGD(params, optim.SGD{Momentum: -1}) }, "optim.NewSGD", torch.ErrValue},
	}
	for _, test := range tests {
		var e *torch.Error
		if err := torch.Try(test.f); !errors.As(err, &e) || e.Op != test.op || e.Code != test.code {
			t.Errorf("New%s panics with %v, want a torch.Error of %s with code %v", test.name, err, test.op, test.code)
		}
	}
}

func TestARateThatIsNoNumberIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	w := param("w", 2)
	opt := optim.NewSGD([]torch.Named{w}, optim.SGD{})
	w.Tensor.Sum(0).Backward()
	for _, lr := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := torch.Try(func() { opt.Step(lr) }); !errors.Is(err, torch.ErrValue) {
			t.Errorf("Step(%g) panics with %v, want torch.ErrValue", lr, err)
		}
	}
	if w.Tensor.Sum(0).Item() != 2 || opt.Updates() != 0 {
		t.Errorf("the weights sum to %g after %d updates, want them unchanged", w.Tensor.Sum(0).Item(), opt.Updates())
	}
}

func TestLearningRateIsTheSettingOrPyTorchsDefault(t *testing.T) {
	for _, test := range []struct {
		builder optim.Builder
		want    float64
	}{{optim.AdamW{}, 1e-3}, {optim.Adam{}, 1e-3}, {optim.SGD{}, 1e-3}, {optim.AdamW{LR: 5e-5}, 5e-5},
		{optim.Adam{LR: 2e-5}, 2e-5}, {optim.SGD{LR: 0.1}, 0.1}} {
		if got := test.builder.LearningRate(); got != test.want {
			t.Errorf("%+v.LearningRate() = %g, want %g", test.builder, got, test.want)
		}
	}
}

func TestGroupsShowTheSettingsInForce(t *testing.T) {
	testenv.RequireTorch(t)
	opt, err := optim.AdamW{}.Build([]optim.Group{{Params: []torch.Named{param("a", 1)}}, {Name: "b", LRScale: 0.5,
		WeightDecay: new(0.0), Params: []torch.Named{param("b", 1), param("c", 1)}}, {}})
	if err != nil {
		t.Fatal(err)
	}
	groups := opt.Groups()
	if len(groups) != 3 || *groups[0].WeightDecay != 0.01 || groups[0].LRScale != 1 || *groups[1].WeightDecay != 0 ||
		groups[1].LRScale != 0.5 || groups[1].Name != "b" {
		t.Errorf("Groups() = %+v, want decays 0.01 and 0, scales 1 and 0.5", groups)
	}
	if got := strings.Join(names(opt.Params()), " "); got != "a b c" {
		t.Errorf("Params() are %q, want a b c", got)
	}
}
