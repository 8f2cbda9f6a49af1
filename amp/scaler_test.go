package amp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// scaled is a training run of testdata/scaler.py: a linear model, an optimizer and a scaler.
type scaled struct {
	g            *golden.File
	weight, bias torch.Tensor
	opt          optim.Optimizer
	scaler       *amp.GradScaler
	clip         bool
	unseen       bool // uses StepWithoutWaiting
}

func newScaled(g *golden.File, o amp.GradScalerOptions, clip bool) *scaled {
	s := &scaled{g: g, weight: g.Tensor("weight").Clone().RequiresGrad(), bias: g.Tensor("bias").Clone().RequiresGrad(),
		clip: clip}
	s.opt = optim.NewAdamW(s.params(), optim.AdamW{})
	s.scaler = amp.NewGradScaler(o)
	return s
}

func (s *scaled) params() []torch.Named {
	return []torch.Named{{Name: "weight", Tensor: s.weight}, {Name: "bias", Tensor: s.bias}}
}

func (s *scaled) loss() torch.Tensor {
	return s.g.Tensor("x").Linear(s.weight, s.bias).MSELoss(s.g.Tensor("y"), torch.ReductionMean)
}

// poison puts into a gradient what testdata/scaler.py does in update k.
func (s *scaled) poison(k int) {
	switch k {
	case 2:
		s.weight.Grad().SetAt(torch.ScalarTensor(float32(math.Inf(1))), 0, 1)
	case 3:
		s.bias.Grad().SetAt(torch.ScalarTensor(float32(math.NaN())), 1)
	case 8:
		s.weight.Grad().SetAt(torch.ScalarTensor(float32(math.Inf(-1))), 0, 1)
	}
}

// update makes one update, each part in its own scope, and returns a row of the trace.
func (s *scaled) update(t *testing.T, k int) (row []float64) {
	t.Helper()
	torch.Scope(func() { s.scaler.Scale(s.loss()).Backward() })
	torch.Scope(func() { s.poison(k) })
	state := s.scaler.State()
	row = append(row, state.Scale, float64(state.GrowthTracker))
	if s.clip {
		torch.Scope(func() {
			if err := s.scaler.Unscale_(s.opt); err != nil {
				t.Fatal(err)
			}
			optim.ClipGradNorm(s.params(), 0.5)
		})
	}
	var applied bool
	torch.Scope(func() {
		var err error
		if s.unseen {
			err = s.scaler.StepWithoutWaiting(s.opt, 0.05)
			applied = !s.scaler.LeftOut(s.opt)
		} else {
			applied, err = s.scaler.Step(s.opt, 0.05)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	torch.Scope(func() {
		if err := s.scaler.Update(); err != nil {
			t.Fatal(err)
		}
	})
	s.opt.ZeroGrad()
	if row = append(row, 0); applied {
		row[2] = 1
	}
	state = s.scaler.State()
	return append(row, state.Scale, float64(state.GrowthTracker))
}

const scaledUpdates = 14

type scalerSettings struct {
	Unscale        bool
	InitScale      float64 `json:"init_scale"`
	GrowthFactor   float64 `json:"growth_factor"`
	BackoffFactor  float64 `json:"backoff_factor"`
	GrowthInterval int     `json:"growth_interval"`
}

func (s scalerSettings) options() amp.GradScalerOptions {
	return amp.GradScalerOptions{InitScale: s.InitScale, GrowthFactor: s.GrowthFactor, BackoffFactor: s.BackoffFactor,
		GrowthInterval: s.GrowthInterval}
}

func scalerCases(t *testing.T) (*golden.File, map[string]scalerSettings) {
	t.Helper()
	g := golden.Load(t, "testdata/scaler.safetensors")
	var made struct{ Cases map[string]scalerSettings }
	if err := json.Unmarshal([]byte(g.Metadata["made"]), &made); err != nil || len(made.Cases) == 0 {
		t.Fatalf("the golden file's cases: %v, %v", made.Cases, err)
	}
	return g, made.Cases
}

// compare reports differences from PyTorch's updates.
func (s *scaled) compare(t *testing.T, name string, k int, row []float64) {
	t.Helper()
	trace := torch.Values[float64](s.g.Tensor(name + "/trace"))
	if diff := cmp.Diff(trace[5*k:5*k+5], row); diff != "" {
		t.Errorf("update %d (scale, tracker, applied, scale, tracker; -PyTorch +ours):\n%s", k, diff)
	}
	golden.Recorded(t, fmt.Sprintf("weight after update %d", k), s.weight, s.g.Tensor(fmt.Sprintf("%s/%d/weight", name,
		k)))
	golden.Recorded(t, fmt.Sprintf("bias after update %d", k), s.bias, s.g.Tensor(fmt.Sprintf("%s/%d/bias", name, k)))
}

func TestScaledTrainingEqualsPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g, cases := scalerCases(t)
	for name, settings := range cases {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "amp", "gradient scaling "+name)
			for _, unseen := range []bool{false, true} {
				s := newScaled(g, settings.options(), settings.Unscale)
				s.unseen = unseen
				made := 0.0
				for k := range scaledUpdates {
					row := s.update(t, k)
					s.compare(t, name, k, row)
					made += row[2]
				}
				if s.opt.Updates() != int(made) {
					t.Errorf("the optimizer has counted %d updates of %g", s.opt.Updates(), made)
				}
			}
		})
	}
}

// For an optimizer that cannot skip a step by itself, StepWithoutWaiting waits like Step.
func TestStepWithoutWaitingWaitsForOtherOptimizers(t *testing.T) {
	testenv.RequireTorch(t)
	for _, implementation := range []optim.Implementation{optim.Fused, optim.Foreach, optim.ForLoop} {
		w := torch.Ones(2).RequiresGrad()
		opt := optim.NewSGD([]torch.Named{{Name: "w", Tensor: w}}, optim.SGD{Implementation: implementation})
		scaler := amp.NewGradScaler(amp.GradScalerOptions{InitScale: 4})
		if scaler.LeftOut(opt) {
			t.Error("a step was left out before the first")
		}
		for _, poisoned := range []bool{true, false, true} {
			opt.ZeroGrad()
			before := w.Sum(0).Item()
			scaler.Scale(w.Sum(0)).Backward()
			if poisoned {
				w.Grad().SetAt(torch.ScalarTensor(float32(math.NaN())), 1)
			}
			if err := scaler.StepWithoutWaiting(opt, 0.5); err != nil {
				t.Fatal(err)
			}
			if err := scaler.StepWithoutWaiting(opt, 0.5); !errors.Is(err, amp.ErrStepped) {
				t.Errorf("%s: a second step: %v, want ErrStepped", implementation, err)
			}
			if scaler.LeftOut(opt) != poisoned || (w.Sum(0).Item() == before) != poisoned {
				t.Errorf("%s: gradients with nan %t: left out %t, sum %g after %g", implementation, poisoned,
					scaler.LeftOut(opt), w.Sum(0).Item(), before)
			}
			if err := scaler.Update(); err != nil {
				t.Fatal(err)
			}
		}
		if opt.Updates() != 1 {
			t.Errorf("%s: %d updates, want 1", implementation, opt.Updates())
		}
	}
}

func TestScalerStateContinuesARun(t *testing.T) {
	testenv.RequireTorch(t)
	g, cases := scalerCases(t)
	for name, settings := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScaled(g, settings.options(), settings.Unscale)
			for k := range scaledUpdates {
				data, err := json.Marshal(s.scaler.State()) // through JSON, as in a checkpoint
				if err != nil {
					t.Fatal(err)
				}
				var state amp.GradScalerState
				if err := json.Unmarshal(data, &state); err != nil {
					t.Fatal(err)
				}
				s.scaler = amp.NewGradScaler(amp.GradScalerOptions{InitScale: 7, GrowthInterval: 99})
				if k%2 == 1 {
					s.scaler.Scale(torch.Ones()) // the scale has been made on a device
				}
				if err := s.scaler.LoadState(state); err != nil {
					t.Fatal(err)
				}
				s.compare(t, name, k, s.update(t, k))
			}
		})
	}
}

func TestScalerStateHasPyTorchsKeys(t *testing.T) {
	testenv.RequireTorch(t)
	data, err := json.Marshal(amp.NewGradScaler(amp.GradScalerOptions{}).State())
	want := `{"scale":65536,"growth_factor":2,"backoff_factor":0.5,"growth_interval":2000,"_growth_tracker":0}`
	if err != nil || string(data) != want {
		t.Errorf("the state is %s, %v, want %s", data, err, want)
	}
}

func TestMisuseOfAScalerIsAnError(t *testing.T) {
	testenv.RequireTorch(t)
	type s = *amp.GradScaler
	type o = optim.Optimizer
	step := func(x s, opt o) error { _, err := x.Step(opt, 0.1); return err }
	unscale := func(x s, opt o) error { return x.Unscale_(opt) }
	update := func(x s, _ o) error { return x.Update() }
	scale := func(x s, opt o) error { x.Scale(opt.Params()[0].Tensor.Sum(0)).Backward(); return nil }
	only := func(x s, _ o) error { x.Scale(torch.Ones()); return nil } // no backward pass
	tests := []struct {
		name  string
		calls []func(s, o) error // all but the last succeed
		want  error
	}{
		{"step before a loss was scaled", []func(s, o) error{step}, amp.ErrNotScaled},
		{"unscale before a loss was scaled", []func(s, o) error{unscale}, amp.ErrNotScaled},
		{"update before a loss was scaled", []func(s, o) error{update}, amp.ErrNotScaled},
		{"unscale twice", []func(s, o) error{scale, unscale, unscale}, amp.ErrUnscaledTwice},
		{"unscale after step", []func(s, o) error{scale, step, unscale}, amp.ErrStepped},
		{"step twice", []func(s, o) error{scale, unscale, step, step}, amp.ErrStepped},
		{"step without gradients", []func(s, o) error{only, step}, amp.ErrNoInfChecks},
		{"update without step", []func(s, o) error{scale, update}, amp.ErrNoInfChecks},
		{"update twice", []func(s, o) error{scale, step, update, update}, amp.ErrNoInfChecks},
		{"in order, twice", []func(s, o) error{scale, unscale, step, update, scale, step, update}, nil},
		{"update after unscale alone", []func(s, o) error{scale, unscale, update, scale, unscale}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opt := optim.NewSGD([]torch.Named{{Name: "w", Tensor: torch.Ones(2).RequiresGrad()}}, optim.SGD{})
			scaler := amp.NewGradScaler(amp.GradScalerOptions{})
			for i, call := range test.calls {
				err := call(scaler, opt)
				if i < len(test.calls)-1 && err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
				if i == len(test.calls)-1 && !errors.Is(err, test.want) {
					t.Errorf("the last call returns %v, want %v", err, test.want)
				}
			}
		})
	}
}

func TestFloat16GradientsAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(2).ToDType(torch.Float16).RequiresGrad()
	opt := optim.NewSGD([]torch.Named{{Name: "half", Tensor: w}}, optim.SGD{})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{})
	scaler.Scale(w.Sum(0)).Backward()
	if applied, err := scaler.Step(opt, 0.1); !errors.Is(err, amp.ErrFP16Gradients) || applied || opt.Updates() != 0 {
		t.Errorf("Step: applied %t, %d updates, error %v; want none and ErrFP16Gradients", applied, opt.Updates(), err)
	}
}

// Two optimizers share a scale: an overflow of one skips its own step only, and halves the scale of
// both.
func TestOptimizersShareAScaler(t *testing.T) {
	testenv.RequireTorch(t)
	a, b := torch.Ones(2).RequiresGrad(), torch.Ones(2).ToDType(torch.Float64).RequiresGrad()
	first := optim.NewSGD([]torch.Named{{Name: "a", Tensor: a}}, optim.SGD{})
	second := optim.NewSGD([]torch.Named{{Name: "b", Tensor: b}}, optim.SGD{})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{InitScale: 8, GrowthInterval: 1})
	for k, overflow := range []bool{false, true, false} {
		scaler.Scale(a.Sum(0).Add(b.Sum(0))).Backward()
		if overflow {
			b.Grad().Fill_(math.Inf(1))
		}
		for opt, want := range map[optim.Optimizer]bool{first: true, second: !overflow} {
			if applied, err := scaler.Step(opt, 0.25); err != nil || applied != want {
				t.Errorf("update %d: Step = %t, %v, want %t", k, applied, err, want)
			}
			opt.ZeroGrad()
		}
		if err := scaler.Update(); err != nil {
			t.Fatal(err)
		}
		if got, want := scaler.GetScale(), []float64{16, 8, 16}[k]; got != want {
			t.Errorf("after update %d the scale is %g, want %g", k, got, want)
		}
	}
	if a.Sum(0).Item() != 0.5 || b.Sum(0).Item() != 1 {
		t.Errorf("the sums are %g and %g, want 0.5 after three steps of a and 1 after two of b", a.Sum(0).Item(),
			b.Sum(0).Item())
	}
}

func TestADisabledScalerDoesNothing(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(1).RequiresGrad()
	opt := optim.NewSGD([]torch.Named{{Name: "w", Tensor: w}}, optim.SGD{})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{Disabled: true})
	loss := w.Sum(0)
	if !scaler.Scale(loss).Is(loss) {
		t.Error("Scale returns another tensor than the loss")
	}
	loss.Backward()
	w.Grad().Fill_(math.Inf(1))
	if err := errors.Join(scaler.Unscale_(opt), scaler.UpdateTo(3),
		scaler.LoadState(amp.GradScalerState{})); err != nil {
		t.Error(err)
	}
	if applied, err := scaler.Step(opt, 1); !applied || err != nil {
		t.Errorf("Step = %t, %v, want true: infinities are not looked for", applied, err)
	}
	if err := scaler.Update(); err != nil || scaler.GetScale() != 1 || scaler.Enabled() ||
		scaler.State() != (amp.GradScalerState{}) {
		t.Errorf("Update = %v, scale %g, enabled %t, state %v; want nil, 1, false and empty", err, scaler.GetScale(),
			scaler.Enabled(), scaler.State())
	}
}

func TestScalerSettingsThatCannotWorkAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for name, o := range map[string]amp.GradScalerOptions{
		"growth of 1":         {GrowthFactor: 1},
		"growth that is NaN":  {GrowthFactor: math.NaN()},
		"endless growth":      {GrowthFactor: math.Inf(1)},
		"backoff of 1":        {BackoffFactor: 1},
		"backoff below zero":  {BackoffFactor: -0.5},
		"scale below zero":    {InitScale: -1},
		"endless scale":       {InitScale: math.Inf(1)},
		"interval below zero": {GrowthInterval: -1},
	} {
		if err := o.Validate(); !errors.Is(err, amp.ErrScalerState) {
			t.Errorf("%s: Validate = %v, want ErrScalerState", name, err)
		}
		if err := torch.Try(func() { amp.NewGradScaler(o) }); !errors.Is(err, torch.ErrValue) {
			t.Errorf("%s: NewGradScaler panics with %v, want torch.ErrValue", name, err)
		}
	}
}

func TestRefusedStateLeavesAScalerAlone(t *testing.T) {
	testenv.RequireTorch(t)
	scaler := amp.NewGradScaler(amp.GradScalerOptions{InitScale: 32})
	good := scaler.State()
	bad := map[string]func(*amp.GradScalerState){
		"empty":              func(s *amp.GradScalerState) { *s = amp.GradScalerState{} },
		"scale NaN":          func(s *amp.GradScalerState) { s.Scale = math.NaN() },
		"scale below zero":   func(s *amp.GradScalerState) { s.Scale = -2 },
		"tracker below zero": func(s *amp.GradScalerState) { s.GrowthTracker = -1 },
		"no growth":          func(s *amp.GradScalerState) { s.GrowthFactor = 0 },
		"no backoff":         func(s *amp.GradScalerState) { s.BackoffFactor = 0 },
		"no interval":        func(s *amp.GradScalerState) { s.GrowthInterval = 0 },
	}
	for name, change := range bad {
		state := good
		change(&state)
		if err := scaler.LoadState(state); !errors.Is(err, amp.ErrScalerState) || scaler.State() != good {
			t.Errorf("%s: LoadState = %v and the state is %v; want ErrScalerState and %v", name, err, scaler.State(),
				good)
		}
	}
	if err := scaler.SetGrowth(1, 0.5, 10); !errors.Is(err, amp.ErrScalerState) || scaler.State() != good {
		t.Errorf("SetGrowth(1, ...) = %v and the state is %v; want ErrScalerState and %v", err, scaler.State(), good)
	}
}

func TestScaleAndGrowthCanBeSet(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(1).RequiresGrad()
	opt := optim.NewSGD([]torch.Named{{Name: "w", Tensor: w}}, optim.SGD{})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{})
	scaler.Scale(w.Sum(0)).Backward()
	if _, err := scaler.Step(opt, 1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(scaler.UpdateTo(4), scaler.SetGrowth(3, 0.25, 1)); err != nil {
		t.Fatal(err)
	}
	opt.ZeroGrad()
	scaler.Scale(w.Sum(0)).Backward()
	if g := w.Grad().Item(); g != 4 {
		t.Errorf("the scaled gradient is %g, want 4", g)
	}
	if _, err := scaler.Step(opt, 1); err != nil {
		t.Fatal(err)
	}
	if err := scaler.Update(); err != nil || scaler.GetScale() != 12 {
		t.Errorf("Update = %v and the scale is %g, want 12 after a growth by 3", err, scaler.GetScale())
	}
	if err := scaler.UpdateTo(math.NaN()); !errors.Is(err, amp.ErrScalerState) {
		t.Errorf("UpdateTo(NaN) = %v, want ErrScalerState", err)
	}
}

// _unscale_grads_ of PyTorch also checks the values of a sparse gradient.
func TestSparseGradientsAreUnscaled(t *testing.T) {
	testenv.RequireTorch(t)
	train := func(scaler *amp.GradScaler, factor float64) (weights torch.Tensor, applied bool) {
		torch.ManualSeed(3)
		e := nn.NewEmbedding(5, 2, &nn.EmbeddingOptions{Sparse: true})
		opt := optim.NewSparseAdam(nn.Params(e), optim.SparseAdam{})
		scaler.Scale(e.Forward(torch.From([]int64{1, 3, 3}, 3)).Sum(torch.DefaultDType).MulScalar(factor)).Backward()
		applied, err := scaler.Step(opt, 0.1)
		require.NoError(t, err)
		return e.Weight.Detach(), applied
	}
	want, _ := train(amp.NewGradScaler(amp.GradScalerOptions{Disabled: true}), 3)
	got, applied := train(amp.NewGradScaler(amp.GradScalerOptions{InitScale: 8}), 3)
	assert.True(t, applied)
	assert.True(t, want.Equal(got), "%v, want %v", got, want)
	_, applied = train(amp.NewGradScaler(amp.GradScalerOptions{InitScale: 8}), math.Inf(1))
	assert.False(t, applied, "the gradient is not finite")
}
