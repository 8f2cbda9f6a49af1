package optim_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"pgregory.net/rapid"
)

// trained returns an optimizer for a [2,3], b [3] and c, after two updates in which c had no
// gradient.
func trained(t *testing.T, b optim.Builder) optim.Optimizer {
	t.Helper()
	params := []torch.Named{param("net.a", 2, 3), param("net.b", 3), param("c", []int64{}...)}
	opt, err := b.Build([]optim.Group{{Params: params}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		params[0].Tensor.Mul(params[1].Tensor).Sum(0).Backward()
		opt.Step(0.1)
		opt.ZeroGrad()
	}
	return opt
}

// everythingOf returns everything that an update may change, as bytes.
func everythingOf(opt optim.Optimizer) map[string][]byte {
	all := map[string][]byte{"updates": fmt.Append(nil, opt.Updates())}
	for _, list := range [][]torch.Named{opt.Params(), opt.State()} {
		for _, n := range list {
			all[n.Name] = n.Tensor.Bytes()
		}
	}
	return all
}

func same(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || !bytes.Equal(v, w) {
			return false
		}
	}
	return true
}

func TestStatesAreNamedInTheOrderOfParameters(t *testing.T) {
	testenv.RequireTorch(t)
	for _, test := range []struct {
		builder optim.Builder
		want    string
	}{
		{optim.AdamW{}, "net.a.step net.a.exp_avg net.a.exp_avg_sq net.b.step net.b.exp_avg net.b.exp_avg_sq"},
		{optim.Adam{AMSGrad: true}, "net.a.step net.a.exp_avg net.a.exp_avg_sq net.a.max_exp_avg_sq net.b.step " +
			"net.b.exp_avg net.b.exp_avg_sq net.b.max_exp_avg_sq"},
		{optim.SGD{Momentum: 0.9}, "net.a.momentum_buffer net.b.momentum_buffer"},
		{optim.SGD{}, ""},
	} {
		if got := strings.Join(names(trained(t, test.builder).State()), " "); got != test.want {
			t.Errorf("%T: the states are %q, want %q", test.builder, got, test.want)
		}
	}
}

func TestStateThatDoesNotFitIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	zeros := func(shape ...int64) torch.Tensor { return torch.Zeros(shape...) }
	freed := zeros(3)
	freed.Free()
	set := func(name string, t torch.Tensor) func([]torch.Named) []torch.Named {
		return func(s []torch.Named) []torch.Named {
			for i := range s {
				if s[i].Name == name {
					s[i].Tensor = t
				}
			}
			return s
		}
	}
	add := func(name string, t torch.Tensor) func([]torch.Named) []torch.Named {
		return func(s []torch.Named) []torch.Named { return append(s, torch.Named{Name: name, Tensor: t}) }
	}
	tests := []struct {
		name    string
		change  func([]torch.Named) []torch.Named
		updates int
		says    string
	}{
		{"an unknown parameter", add("net.d.exp_avg", zeros(3)), 1, `"net.d.exp_avg" belongs to no parameter`},
		{"a name without a dot", add("step", zeros()), 1, `"step" belongs to no parameter`},
		{"an empty name", add("", zeros()), 1, `"" belongs to no parameter`},
		{"an unknown kind", add("net.a.momentum_buffer", zeros(2, 3)), 1, "it keeps step, exp_avg, exp_avg_sq"},
		{"the kind of another setting", add("net.a.max_exp_avg_sq", zeros(2, 3)), 1, "it keeps step"},
		{"a state twice", add("net.a.exp_avg", zeros(2, 3)), 1, `"net.a.exp_avg" was given twice`},
		{"a missing state", func(s []torch.Named) []torch.Named { return s[:len(s)-1] }, 1,
			`"net.b.exp_avg_sq" is missing`},
		{"part of a parameter without state", add("c.exp_avg", zeros([]int64{}...)), 1,
			`is missing, though there is other state of "c"`},
		{"another shape", set("net.a.exp_avg", zeros(3, 2)), 1, "has shape [3 2]; want [2 3]"},
		{"a shape that would broadcast", set("net.a.exp_avg", zeros(3)), 1, "has shape [3]; want [2 3]"},
		{"another dtype", set("net.b.exp_avg_sq", zeros(3).ToDType(torch.Float64)), 1,
			"has dtype float64; want float32"},
		{"steps with a dimension", set("net.b.step", zeros(1)), 1, "has shape [1]; want []"},
		{"steps that are integers", set("net.b.step", torch.ScalarTensor[int64](3)), 1,
			"has dtype int64; want float32"},
		{"a moment of another shape on meta", set("net.a.exp_avg", torch.TensorOptions{Device: torch.Meta}.Empty(3)), 1,
			"has shape [3]; want [2 3]"},
		{"an undefined state", set("net.b.exp_avg", torch.Tensor{}), 1, `"net.b.exp_avg" is undefined`},
		{"a freed state", set("net.b.exp_avg", freed), 1, "freed"},
		{"a negative number of updates", slices.Clone[[]torch.Named], -1, "number of updates is -1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			source, opt := trained(t, optim.AdamW{}), trained(t, optim.AdamW{})
			before := everythingOf(opt)
			err := opt.LoadState(test.change(slices.Clone(source.State())), test.updates)
			if !errors.Is(err, optim.ErrState) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("LoadState = %v, want ErrState that says %q", err, test.says)
			}
			if !same(before, everythingOf(opt)) {
				t.Error("LoadState was refused and has changed the optimizer")
			}
		})
	}
}

// A moment on meta has no values; the caller reads them into the allocated state.
func TestMomentsOnMetaAreMadeRoomFor(t *testing.T) {
	testenv.RequireTorch(t)
	source := trained(t, optim.AdamW{})
	state := source.State()
	for i, s := range state {
		if !strings.HasSuffix(s.Name, ".step") {
			state[i].Tensor = torch.TensorOptions{Device: torch.Meta}.Empty(s.Tensor.Shape()...)
		}
	}
	params := []torch.Named{param("net.a", 2, 3), param("net.b", 3), param("c", []int64{}...)}
	fresh, err := optim.AdamW{}.Build([]optim.Group{{Params: params}})
	require.NoError(t, err)
	for _, opt := range []optim.Optimizer{fresh, trained(t, optim.AdamW{})} {
		require.NoError(t, opt.LoadState(state, 2))
		for i, s := range opt.State() {
			if !strings.HasSuffix(s.Name, ".step") {
				torch.NoGrad(func() { s.Tensor.Copy_(source.State()[i].Tensor) })
			}
		}
		for i, s := range opt.State() {
			assert.Equal(t, source.State()[i].Tensor.Bytes(), s.Tensor.Bytes(), s.Name)
		}
	}
}

// An optimizer whose step is computed in Go needs the value of the count.
func TestNumbersOnMetaAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	opt := trained(t, optim.AdamW{Implementation: optim.Foreach})
	before, state := everythingOf(opt), slices.Clone(opt.State())
	state[0].Tensor = torch.TensorOptions{Device: torch.Meta}.Empty()
	err := opt.LoadState(state, 1)
	require.ErrorIs(t, err, optim.ErrState)
	require.ErrorContains(t, err, `"net.a.step" is on meta`)
	require.True(t, same(before, everythingOf(opt)), "a refused state has changed the optimizer")
}

func TestSGDWithoutMomentumRefusesAnyState(t *testing.T) {
	testenv.RequireTorch(t)
	state := trained(t, optim.SGD{Momentum: 0.5}).State()
	if err := trained(t, optim.SGD{}).LoadState(state, 2); !errors.Is(err, optim.ErrState) ||
		!strings.Contains(err.Error(), "want of momentum") {
		t.Errorf("LoadState = %v, want ErrState", err)
	}
}

func TestAnOptimizerCanLoadItsOwnState(t *testing.T) {
	testenv.RequireTorch(t)
	opt := trained(t, optim.AdamW{})
	before := everythingOf(opt)
	if err := opt.LoadState(opt.State(), opt.Updates()); err != nil || !same(before, everythingOf(opt)) {
		t.Errorf("LoadState(State()) = %v, or has changed something", err)
	}
}

// An optimizer that was saved and loaded after any update, with its states in any order and any
// parameters lacking gradients, must behave exactly like one that was not.
func TestSavingAndLoadingIsInvisible(t *testing.T) {
	testenv.RequireTorch(t)
	builders := []optim.Builder{optim.AdamW{}, optim.Adam{AMSGrad: true}, optim.SGD{}, optim.SGD{Momentum: 0.9},
		optim.SGD{Momentum: 0.9, Nesterov: true}}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SampledFrom(builders).Draw(t, "optimizer")
		count := rapid.IntRange(1, 4).Draw(t, "parameters")
		split := rapid.IntRange(0, count).Draw(t, "split")
		start := func() ([]torch.Named, optim.Optimizer) {
			var params []torch.Named
			for i := range count {
				params = append(params, param(fmt.Sprint("p", i), int64(i+1)))
			}
			opt, err := b.Build([]optim.Group{{Params: params[:split]}, {LRScale: 0.5, Params: params[split:]}})
			if err != nil {
				t.Fatal(err)
			}
			return params, opt
		}
		torch.Scope(func() {
			plainParams, plain := start()
			savedParams, saved := start()
			for range rapid.IntRange(1, 6).Draw(t, "updates") {
				present := rapid.SliceOfN(rapid.Bool(), count, count).Draw(t, "gradients")
				for i, p := range plainParams {
					for _, q := range []torch.Named{p, savedParams[i]} {
						q.Tensor.SetGrad(torch.Tensor{})
						if present[i] {
							q.Tensor.SetGrad(torch.Arange(int64(i + 1)).ToDType(torch.Float32).SubScalar(0.7))
						}
					}
				}
				plain.Step(0.1)
				saved.Step(0.1)
				if rapid.Bool().Draw(t, "save") {
					state := slices.Clone(saved.State())
					rand.New(rand.NewPCG(1, uint64(len(state)))).Shuffle(len(state), func(i, j int) {
						state[i], state[j] = state[j], state[i]
					})
					next, err := b.Build(saved.Groups())
					if err != nil {
						t.Fatal(err)
					}
					if err := next.LoadState(state, saved.Updates()); err != nil {
						t.Fatal(err)
					}
					saved = next
				}
				if !same(everythingOf(plain), everythingOf(saved)) {
					t.Fatalf("after update %d the optimizers differ", plain.Updates())
				}
			}
		})
	})
}
