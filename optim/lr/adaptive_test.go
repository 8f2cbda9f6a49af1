package lr_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/optim/lr"
	"pgregory.net/rapid"
)

func start(t interface{ Fatal(...any) }, a lr.Adaptive) lr.Controller {
	c, err := a.Start(0.1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var controllers = map[string]lr.Adaptive{
	"plateau":      lr.ReduceLROnPlateau{Patience: new(2), Cooldown: 2},
	"greedy":       lr.Greedy{Patience: new(1), Warmup: 1, Cooldown: 2, MinLR: new(0.02), ResetStart: new(3)},
	"smooth":       lr.Greedy{Patience: new(1), Smooth: true, WindowSize: 4, Mode: lr.Max},
	"timm plateau": lr.TimmPlateau{TimmWarmup: lr.TimmWarmup{WarmupT: 5}, PatienceT: new(1), CooldownT: 1},
}

// A run that is stopped anywhere and continued by another controller has the rates of an
// uninterrupted run.
func TestAControllerContinuesFromItsState(t *testing.T) {
	for name, a := range controllers {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				metric := rapid.OneOf(rapid.Float64Range(-3, 3), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1),
					math.Inf(-1)}))
				metrics := rapid.SliceOfN(metric, 1, 60).Draw(t, "metrics")
				stop := rapid.IntRange(0, len(metrics)).Draw(t, "stop")
				whole, first, second := start(t, a), start(t, a), start(t, a)
				for _, m := range metrics[:stop] {
					whole.Observe(m)
					first.Observe(m)
				}
				state, err := first.State()
				if err != nil {
					t.Fatal(err)
				}
				if err := second.LoadState(state); err != nil {
					t.Fatalf("LoadState(%s) = %v", state, err)
				}
				if second.Rate() != whole.Rate() {
					t.Fatalf("rate after LoadState = %v, want %v", second.Rate(), whole.Rate())
				}
				for i, m := range metrics[stop:] {
					if got, want := second.Observe(m), whole.Observe(m); got != want || second.Rate() != want {
						t.Fatalf("rate %d after the stop = %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

func TestADamagedStateIsRefusedAndChangesNothing(t *testing.T) {
	for _, c := range []struct{ claim, state, want string }{
		{"not JSON", `{"best"`, "unexpected end"},
		{"empty", ``, "unexpected end"},
		{"null", `null`, `has no "`},
		{"a field is missing", `{"best":1,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0}`, `has no "last_lr"`},
		{"a field is unknown",
			`{"best":1,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0,"last_lr":1,"factor":2}`,
			`unknown field "factor"`},
		{"a counter is negative", `{"best":1,"num_bad_epochs":-1,"cooldown_counter":0,"last_epoch":0,"last_lr":1}`,
			"negative"},
		{"the rate is negative", `{"best":1,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0,"last_lr":-1}`,
			"no rate"},
		{"the rate is infinite", `{"best":1,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0,"last_lr":"inf"}`,
			"no rate"},
		{"the best value is null", `{"best":null,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0,"last_lr":1}`,
			"null"},
		{"a number is text", `{"best":"good","num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0,"last_lr":1}`,
			"string"},
		{"something follows", `{"best":1,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0,"last_lr":1} 2`,
			"after top-level value"},
	} {
		controller := start(t, lr.ReduceLROnPlateau{})
		controller.Observe(3)
		before, _ := controller.State()
		err := controller.LoadState([]byte(c.state))
		var stateError *lr.StateError
		if !errors.As(err, &stateError) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: LoadState = %v, want a *StateError with %q", c.claim, err, c.want)
		}
		if after, _ := controller.State(); string(after) != string(before) {
			t.Errorf("%s: the state is %s after the error, want %s", c.claim, after, before)
		}
	}
	for name, states := range map[string][]string{
		"greedy": {
			`{"best":1,"num_bad_epochs":0,"num_good_epochs":0,"cooldown_counter":0,"warmup_counter":0,"reset_start":1,"last_epoch":0,"last_lr":"nan","values":[],"sum":0}`,
			`{"best":1,"num_bad_epochs":0,"num_good_epochs":-3,"cooldown_counter":0,"warmup_counter":0,"reset_start":1,"last_epoch":0,"last_lr":1,"values":[],"sum":0}`,
			`{"best":1,"num_bad_epochs":0,"num_good_epochs":0,"cooldown_counter":0,"warmup_counter":0,"reset_start":1,"last_epoch":0,"last_lr":1,"values":null,"sum":0}`,
		},
		"timm plateau": {
			`{"best":1,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":3,"last_lr":1,"epoch":2}`,
			`{"best":1,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":0,"last_lr":1}`,
		},
	} {
		for _, state := range states {
			if err := start(t, controllers[name]).LoadState([]byte(state)); err == nil {
				t.Errorf("%s: LoadState(%s) = nil, want an error", name, state)
			}
		}
	}
	wide, narrow := start(t, lr.Greedy{Smooth: true}), start(t, lr.Greedy{Smooth: true, WindowSize: 1})
	wide.Observe(1)
	wide.Observe(1)
	state, _ := wide.State()
	if err := narrow.LoadState(state); err == nil || !strings.Contains(err.Error(), "the window is 1") {
		t.Errorf("LoadState of a wider window = %v, want an error", err)
	}
}

func TestStartNamesTheSetting(t *testing.T) {
	for _, c := range []struct {
		adaptive lr.Adaptive
		want     string
	}{
		{lr.ReduceLROnPlateau{Factor: 1}, "ReduceLROnPlateau.Factor is 1: want a number above 0 and below 1"},
		{lr.ReduceLROnPlateau{Mode: "lower"}, `ReduceLROnPlateau.Mode is lower: want "min", "max"`},
		{lr.ReduceLROnPlateau{ThresholdMode: "relative"}, "ThresholdMode is relative"},
		{lr.ReduceLROnPlateau{Patience: new(-1)}, "Patience is -1"},
		{lr.ReduceLROnPlateau{Eps: new(math.NaN())}, "Eps is NaN"},
		{lr.Greedy{MinLR: new(0.5), MaxLR: new(0.1)}, "MaxLR is 0.1: want no less than MinLR, which is 0.5"},
		{lr.Greedy{WindowSize: 3}, "WindowSize is 3: want 0 without Smooth"},
		{lr.Greedy{Factor: -1}, "Greedy.Factor is -1"},
		{lr.TimmPlateau{TimmWarmup: lr.TimmWarmup{WarmupT: -1}}, "TimmPlateau.WarmupT is -1"},
	} {
		_, err := c.adaptive.Start(0.1)
		var setting *lr.SettingError
		if !errors.As(err, &setting) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%#v.Start(0.1) = %v, want a *SettingError with %q", c.adaptive, err, c.want)
		}
	}
	for name, a := range controllers {
		for _, peak := range []float64{0, -1, math.NaN(), math.Inf(1)} {
			if _, err := a.Start(peak); err == nil || !strings.Contains(err.Error(), "peak") {
				t.Errorf("%s: Start(%v) = %v, want an error that names the peak", name, peak, err)
			}
		}
	}
}

func FuzzLoadState(f *testing.F) {
	for _, a := range controllers {
		c := start(f, a)
		for i := range 20 {
			state, err := c.State()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(state)
			c.Observe(math.Sin(float64(i)))
		}
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		for name, a := range controllers {
			c := start(t, a)
			if c.LoadState(state) != nil {
				continue
			}
			for _, m := range []float64{1, 1, math.NaN(), 0.5, 2, 2, 2, 2} {
				if r := c.Observe(m); !(r >= 0) || math.IsInf(r, 0) {
					t.Errorf("%s: rate %v after LoadState(%s)", name, r, state)
				}
			}
			if again, err := c.State(); err != nil || !json.Valid(again) {
				t.Errorf("%s: State() = %s, %v", name, again, err)
			}
		}
	})
}
