package optim_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// pytorchCases are the cases of testdata/pytorch.py.
var pytorchCases = map[string]optim.Builder{
	"adamw":         optim.AdamW{Implementation: optim.ForLoop},
	"adamw_numbers": optim.AdamW{Implementation: optim.ForLoop},
	"nadam":         optim.NAdam{},
	"rmsprop":       optim.RMSprop{Momentum: 0.9},
}

var pytorchNames = []string{"weight", "bias", "scale", "rare"}

// startAt makes the parameters with their values after 10 updates, and a new optimizer.
func startAt(t *testing.T, g *golden.File, name string, inputs *golden.File) *run {
	t.Helper()
	r := &run{t: t, g: inputs, params: map[string]torch.Tensor{}}
	groups := []optim.Group{{}, {WeightDecay: new(0.1)}}
	for i, n := range pytorchNames {
		p := g.Tensor(name + "/at/" + n).Clone().RequiresGrad()
		r.params[n] = p
		groups[i/2].Params = append(groups[i/2].Params, torch.Named{Name: n, Tensor: p})
	}
	var err error
	if r.opt, err = pytorchCases[name].Build(groups); err != nil {
		t.Fatal(err)
	}
	return r
}

// stateDict returns the tensors of a state_dict() written by PyTorch.
func stateDict(g *golden.File, name string) (state []torch.Named) {
	for _, n := range g.Names() {
		if key, ok := strings.CutPrefix(n, name+"/"); ok && strings.HasPrefix(key, "state.") {
			state = append(state, torch.Named{Name: key, Tensor: g.Tensor(n)})
		}
	}
	return state
}

func TestARunOfPyTorchIsContinuedToTheBit(t *testing.T) {
	testenv.RequireTorch(t)
	g, inputs := golden.Load(t, "testdata/pytorch.safetensors"), golden.Load(t, "testdata/inputs.safetensors")
	for name := range pytorchCases {
		t.Run(name, func(t *testing.T) {
			r := startAt(t, g, name, inputs)
			if err := optim.FromPyTorch(r.opt, stateDict(g, name), []byte(g.Metadata[name])); err != nil {
				t.Fatal(err)
			}
			goldencount.Start(t, "state dicts of optimizers", name+", continued")
			if r.opt.Updates() != 10 {
				t.Errorf("Updates() = %d, want 10", r.opt.Updates())
			}
			for k := 10; k < 20; k++ {
				torch.Scope(func() {
					for n, p := range r.params {
						p.SetGrad(r.gradient(k, n))
					}
					r.opt.Step(0.05)
				})
			}
			for n, p := range r.params {
				equal(t, n, p, g.Tensor(name+"/end/"+n))
			}
		})
	}
}

// ToPyTorch writes what PyTorch's state_dict() contains: the same keys and bits, and all settings
// of the groups.
func TestToPyTorchWritesWhatPyTorchWould(t *testing.T) {
	testenv.RequireTorch(t)
	g, inputs := golden.Load(t, "testdata/pytorch.safetensors"), golden.Load(t, "testdata/inputs.safetensors")
	for name := range pytorchCases {
		t.Run(name, func(t *testing.T) {
			r := startAt(t, g, name, inputs)
			goldencount.Start(t, "state dicts of optimizers", name+", written")
			want := stateDict(g, name)
			if err := optim.FromPyTorch(r.opt, want, []byte(g.Metadata[name])); err != nil {
				t.Fatal(err)
			}
			tensors, groups, err := optim.ToPyTorch(r.opt)
			if err != nil {
				t.Fatal(err)
			}
			order := func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) }
			slices.SortFunc(tensors, order)
			if !slices.Equal(names(tensors), names(want)) {
				t.Fatalf("the tensors are %q, want %q", names(tensors), names(want))
			}
			for i := range want {
				equal(t, want[i].Name, tensors[i].Tensor, want[i].Tensor)
			}
			type layout struct {
				ParamGroups []map[string]any `json:"param_groups"`
			}
			var got, theirs layout
			decode(t, string(groups), &got)
			decode(t, g.Metadata[name], &theirs)
			for i, group := range theirs.ParamGroups {
				for key, value := range group {
					if key == "lr" || key == "foreach" || key == "fused" {
						continue // they change during a run
					}
					a, _ := json.Marshal(got.ParamGroups[i][key])
					b, _ := json.Marshal(value)
					if _, has := got.ParamGroups[i][key]; !has || string(a) != string(b) {
						t.Errorf("group %d has %s %s, want %s", i, key, a, b)
					}
				}
			}
		})
	}
}

func TestForeignStateThatDoesNotFitIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	two := func() optim.Optimizer {
		return optim.NewAdamW([]torch.Named{param("a", 2), param("b", 3)}, optim.AdamW{})
	}
	good := func(number string) []torch.Named {
		return []torch.Named{{Name: "state." + number + ".step", Tensor: torch.Full(3.0)},
			{Name: "state." + number + ".exp_avg", Tensor: torch.Ones(2)}, {Name: "state." + number + ".exp_avg_sq",
				Tensor: torch.Ones(2)}}
	}
	const groups = `{"param_groups":[{"params":[0,1]}]}`
	for _, test := range []struct {
		name, groups string
		state        []torch.Named
		says         string
	}{
		{"no JSON", `{`, nil, "not JSON"},
		{"another number of groups", `{"param_groups":[]}`, nil, "0 groups"},
		{"another number of parameters", `{"param_groups":[{"params":[0]}]}`, nil, "has 1 parameters; want 2"},
		{"a name that is not there", `{"param_groups":[{"params":[0],"param_names":["c"]}]}`, nil, `"c"`},
		{"a name twice", `{"param_groups":[{"params":[0,1],"param_names":["a","a"]}]}`, nil, "twice"},
		{"a number twice", `{"param_groups":[{"params":[0,0]}]}`, nil, "twice"},
		{"a number that is not there", groups, good("7"), "parameter 7"},
		{"a key of another form", groups, []torch.Named{{Name: "0.step", Tensor: torch.Full(1.0)}},
			"state.NUMBER.KIND"},
		{"a negative number", groups, []torch.Named{{Name: "state.-1.step", Tensor: torch.Full(1.0)}},
			"state.NUMBER.KIND"},
		{"a negative step", groups, []torch.Named{{Name: "state.0.step", Tensor: torch.Full(-5.0)}}, "missing"},
		{"a step that is no number", groups,
			[]torch.Named{{Name: "state.0.step", Tensor: torch.Full(0.0).Log().Neg().Sub(torch.Full(0.0).Log().Neg())}},
			"largest step is NaN"},
		{"a missing state", groups, good("0")[:2], "exp_avg_sq"},
		{"another shape", groups, good("1"), "shape [2]; want [3]"},
	} {
		opt := two()
		if err := optim.FromPyTorch(opt, test.state, []byte(test.groups)); !errors.Is(err, optim.ErrState) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: FromPyTorch = %v, want ErrState that says %q", test.name, err, test.says)
		}
		if len(opt.State()) != 0 || opt.Updates() != 0 {
			t.Errorf("%s: there are %d states after %d updates, want none", test.name, len(opt.State()), opt.Updates())
		}
	}
	opt := two()
	if err := optim.FromPyTorch(opt, good("0"), []byte(groups)); err != nil || opt.Updates() != 3 {
		t.Errorf("what fits: %v, %d updates; want no error and 3", err, opt.Updates())
	}
}

// Arbitrary bytes result in an error or in a state that can be written again.
func FuzzFromPyTorch(f *testing.F) {
	testenv.RequireTorch(f)
	f.Add([]byte(`{"param_groups":[{"params":[0,1],"param_names":["a","b"]}]}`), "state.0.step")
	f.Add([]byte(`{"param_groups":[{"params":[5,9]}]}`), "state.9.momentum_buffer")
	f.Add([]byte(`{"param_groups":[{"params":[-1,1e9]}]}`), "state..")
	f.Fuzz(func(t *testing.T, groups []byte, key string) {
		opt := optim.NewSGD([]torch.Named{param("a", 2), param("b", 2)}, optim.SGD{Momentum: 0.9})
		err := optim.FromPyTorch(opt, []torch.Named{{Name: key, Tensor: torch.Ones(2)}}, groups)
		if err != nil {
			if !errors.Is(err, optim.ErrState) || len(opt.State()) != 0 {
				t.Fatalf("FromPyTorch = %v with %d states, want ErrState and none", err, len(opt.State()))
			}
			return
		}
		tensors, again, err := optim.ToPyTorch(opt)
		if err != nil || len(tensors) != 1 {
			t.Fatalf("ToPyTorch gives %d tensors and %v, want 1", len(tensors), err)
		}
		if err := optim.FromPyTorch(opt, tensors, again); err != nil {
			t.Fatalf("what ToPyTorch wrote is refused: %v", err)
		}
	})
}
