package optim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

const (
	updates = 20
	peak    = 0.05
)

var everything = []string{"weight", "bias", "scale", "late", "rare", "frozen"}

// groupCase is a group of a golden case: its parameters' names, weight decay, rate scale and own
// optimizer.
type groupCase struct {
	names     []string
	decay     *float64
	scale     float64
	optimizer optim.Builder
}

var one = []groupCase{{names: everything}}

// goldenCases are the cases of testdata/optim.py.
var goldenCases = []struct {
	name    string
	builder optim.Builder
	groups  []groupCase
	dtypes  map[string]torch.DType
}{
	{"adamw", optim.AdamW{}, one, nil},
	{"adamw_no_decay", optim.AdamW{WeightDecay: new(0.0)}, one, nil},
	{"adamw_settings", optim.AdamW{Beta1: new(0.8), Beta2: new(0.95), Eps: new(1e-5), WeightDecay: new(0.1)}, one, nil},
	{"adamw_zeros", optim.AdamW{Beta1: new(0.0), Beta2: new(0.0), Eps: new(1e-3)}, one, nil},
	{"adamw_amsgrad", optim.AdamW{AMSGrad: true}, one, nil},
	{"adamw_maximize", optim.AdamW{Maximize: true}, one, nil},
	{"adamw_groups", optim.AdamW{}, []groupCase{
		{names: []string{"weight", "late", "frozen"}, decay: new(0.3)},
		{names: []string{"bias", "scale"}, decay: new(0.0), scale: 0.1},
		{names: []string{"rare"}, scale: 3},
	}, nil},
	{"adamw_dtypes", optim.AdamW{}, one, map[string]torch.DType{"bias": torch.Float64, "rare": torch.BFloat16,
		"late": torch.BFloat16}},
	{"adam", optim.Adam{}, one, nil},
	{"adam_decay_amsgrad", optim.Adam{WeightDecay: new(0.02), AMSGrad: true}, one, nil},
	{"sgd", optim.SGD{}, one, nil},
	{"sgd_decay_maximize", optim.SGD{WeightDecay: new(0.1), Maximize: true}, one, nil},
	{"sgd_momentum", optim.SGD{Momentum: 0.9}, one, nil},
	{"sgd_dampening", optim.SGD{Momentum: 0.9, Dampening: 0.4, WeightDecay: new(0.01)}, one, nil},
	{"sgd_nesterov", optim.SGD{Momentum: 0.8, Nesterov: true, WeightDecay: new(0.01), Maximize: true}, one, nil},
}

// run is one training run of a golden case.
type run struct {
	t      *testing.T
	g      *golden.File
	dtypes map[string]torch.DType
	params map[string]torch.Tensor
	opt    optim.Optimizer
}

// start makes the parameters with their initial values, and the optimizer.
func start(t *testing.T, g *golden.File, b optim.Builder, groups []groupCase, dtypes map[string]torch.DType) *run {
	t.Helper()
	r := &run{t, g, dtypes, map[string]torch.Tensor{}, nil}
	var built []optim.Group
	for _, c := range groups {
		group := optim.Group{WeightDecay: c.decay, LRScale: c.scale, Optimizer: c.optimizer}
		for _, name := range c.names {
			p := r.cast(name, g.Tensor("init."+name)).Clone().SetRequiresGrad(name != "frozen")
			r.params[name] = p
			group.Params = append(group.Params, torch.Named{Name: name, Tensor: p})
		}
		built = append(built, group)
	}
	var err error
	if r.opt, err = b.Build(built); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *run) cast(name string, t torch.Tensor) torch.Tensor {
	if d, ok := r.dtypes[name]; ok {
		return t.ToDType(d)
	}
	return t
}

// gradient returns a gradient of testdata/optim.py; it is undefined if the parameter has none.
func (r *run) gradient(update int, name string) torch.Tensor {
	if name == "frozen" || name == "late" && update < 4 || name == "rare" && update%2 == 1 {
		return torch.Tensor{}
	}
	return r.cast(name, r.g.Tensor(fmt.Sprintf("grad.%d.%s", update%5, name))).Clone()
}

// updates makes the updates from..to, each in its own scope, as a training loop does.
func (r *run) updates(from, to int) {
	for k := from; k < to; k++ {
		torch.Scope(func() {
			for name, p := range r.params {
				p.SetGrad(r.gradient(k, name))
			}
			r.opt.Step(peak * (float64(updates-k) / updates))
			r.opt.ZeroGrad()
		})
	}
}

// compare compares parameters and states with PyTorch's, bit for bit.
func (r *run) compare(name string) {
	r.t.Helper()
	for p, tensor := range r.params {
		equal(r.t, "parameter "+p, tensor, r.g.Tensor(name+"/param/"+p))
	}
	var got, want []string
	for _, s := range r.opt.State() {
		got = append(got, s.Name)
		if key := name + "/state/" + s.Name; r.g.Has(key) {
			equal(r.t, "state "+s.Name, s.Tensor, r.g.Tensor(key))
		}
	}
	for _, n := range r.g.Names() {
		if s, ok := strings.CutPrefix(n, name+"/state/"); ok {
			want = append(want, s)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("the states are %q, want %q", got, want)
	}
}

func TestBitsEqualPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/optim.safetensors")
	for _, c := range goldenCases {
		t.Run(c.name, func(t *testing.T) {
			goldencount.Start(t, "optimizers, 20 updates", c.name)
			r := start(t, g, c.builder, c.groups, c.dtypes)
			r.updates(0, updates)
			r.compare(c.name)
			if r.opt.Updates() != updates {
				t.Errorf("Updates() = %d, want %d", r.opt.Updates(), updates)
			}
			for name, p := range r.params {
				if p.Grad().Defined() {
					t.Errorf("%s has a gradient after ZeroGrad", name)
				}
			}
		})
	}
}

// A run that is stopped, saved and continued by a new optimizer must end where an uninterrupted run
// ends, whether the parameters have had their first gradient by then (after 10 updates) or not
// (after 2).
func TestResumedRunEqualsPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/optim.safetensors")
	for _, c := range goldenCases {
		for _, stop := range []int{0, 2, 10} {
			t.Run(fmt.Sprintf("%s after %d", c.name, stop), func(t *testing.T) {
				first := start(t, g, c.builder, c.groups, c.dtypes)
				first.updates(0, stop)
				second := start(t, g, c.builder, c.groups, c.dtypes)
				for name, p := range second.params {
					torch.NoGrad(func() { p.Copy_(first.params[name]) })
				}
				state := first.opt.State()
				if err := second.opt.LoadState(state, first.opt.Updates()); err != nil {
					t.Fatal(err)
				}
				first.updates(stop, updates) // must not affect the second, nor vice versa
				second.updates(stop, updates)
				second.compare(c.name)
				first.compare(c.name)
				if second.opt.Updates() != updates {
					t.Errorf("Updates() = %d, want %d", second.opt.Updates(), updates)
				}
			})
		}
	}
}

// LoadState must discard the state of parameters that the given state does not contain.
func TestRewoundRunEqualsPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/optim.safetensors")
	for _, c := range goldenCases {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, g, c.builder, c.groups, c.dtypes)
			r.updates(0, 7)
			for name, p := range r.params {
				torch.NoGrad(func() { p.Copy_(g.Tensor("init." + name)) })
			}
			if err := r.opt.LoadState(nil, 0); err != nil {
				t.Fatal(err)
			}
			if s := r.opt.State(); len(s) != 0 {
				t.Fatalf("after LoadState(nil, 0) there are %d states, want none", len(s))
			}
			r.updates(0, updates)
			r.compare(c.name)
		})
	}
}

func TestEveryGoldenCaseIsCompared(t *testing.T) {
	testenv.RequireTorch(t)
	var compared []string
	for _, c := range goldenCases {
		compared = append(compared, c.name)
	}
	for _, name := range golden.Load(t, "testdata/optim.safetensors").Names() {
		c, _, isCase := strings.Cut(name, "/param/")
		if isCase && !slices.Contains(compared, c) {
			t.Errorf("no test compares the golden case %q", c)
		}
	}
}

func TestClippingEqualsPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/optim.safetensors")
	tests := []struct {
		name string
		clip func(params []torch.Named) torch.Tensor
	}{
		{"clip_norm_1", func(ps []torch.Named) torch.Tensor { return optim.ClipGradNorm(ps, 1) }},
		{"clip_norm_1000", func(ps []torch.Named) torch.Tensor { return optim.ClipGradNorm(ps, 1000) }},
		{"clip_value", func(ps []torch.Named) torch.Tensor { optim.ClipGradValue(ps, 0.5); return torch.Tensor{} }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			goldencount.Start(t, "clipping", test.name)
			r := start(t, g, optim.SGD{}, one, nil)
			for name, p := range r.params {
				p.SetGrad(r.gradient(4, name))
			}
			total := test.clip(r.opt.Params())
			if total.Defined() {
				equal(t, "total norm", total, g.Tensor(test.name+"/total"))
			}
			for name, p := range r.params {
				if name == "frozen" {
					continue
				}
				equal(t, "gradient of "+name, p.Grad(), g.Tensor(test.name+"/grad/"+name))
			}
		})
	}
}
