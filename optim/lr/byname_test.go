package lr_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/optim/lr"
)

func TestByNameMakesTheScheduleOfTheSameSettings(t *testing.T) {
	for _, c := range []struct {
		name   string
		kwargs map[string]any
		warmup float64
		want   lr.Schedule
	}{
		{"constant", nil, 0, lr.Constant{}},
		{"linear", nil, 0.1, lr.Linear{Warmup: 0.1}},
		{"cosine_with_restarts", map[string]any{"num_cycles": 2}, 100, lr.CosineWithRestarts{Warmup: 100, Cycles: 2}},
		{"get_cosine_with_hard_restarts_schedule_with_warmup", map[string]any{"num_cycles": 2, "num_warmup_steps": 7.0},
			0, lr.CosineWithRestarts{Warmup: 7, Cycles: 2}},
		{"polynomial", map[string]any{"lr_end": 0.0, "power": nil}, 0, lr.Polynomial{LREnd: new(0.0)}},
		{"StepLR", map[string]any{"step_size": json.Number("30")}, 0, lr.StepLR{StepSize: 30}},
		{"MultiStepLR", map[string]any{"milestones": []int{3, 5}}, 0, lr.MultiStepLR{Milestones: []int{3, 5}}},
		{"OneCycleLR", map[string]any{"epochs": 3, "steps_per_epoch": 7, "cycle_momentum": false,
			"pct_start": float32(0.5)}, 0,
			lr.OneCycleLR{TotalSteps: 21, FixedMomentum: true, PctStart: new(0.5)}},
		{"SequentialLR", map[string]any{"milestones": []any{5.0}, "schedulers": []any{
			map[string]any{"name": "LinearLR", "kwargs": map[string]any{"total_iters": 5}},
			map[string]any{"name": "linear", "warmup": 2}}}, 0,
			lr.SequentialLR{Schedules: []lr.Schedule{lr.LinearLR{TotalIters: 5}, lr.Linear{Warmup: 2}},
				Milestones: []int{5}}},
		{"ChainedScheduler", map[string]any{"schedulers": []lr.Schedule{lr.Constant{}}}, 0,
			lr.ChainedScheduler{Schedules: []lr.Schedule{lr.Constant{}}}},
		{"CosineLRScheduler", map[string]any{"warmup_t": 5, "warmup_prefix": true}, 0,
			lr.TimmCosine{TimmWarmup: lr.TimmWarmup{WarmupT: 5}, WarmupPrefix: true}},
		{"StepLRScheduler", map[string]any{"decay_t": 2.5, "warmup_prefix": false}, 0, lr.TimmStep{DecayT: 2.5,
			WarmupBeneath: true}},
		{"CosineLrScheduler", map[string]any{"total_num_epochs": 10, "num_update_steps_per_epoch": 7,
			"num_warmup_epochs": 2}, 0, lr.PytorchAcceleratedCosine{TotalSteps: 70, WarmupSteps: 14}},
	} {
		got, err := lr.ByName(c.name, c.kwargs, c.warmup)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("ByName(%q, %v, %v) = %#v, %v; want %#v", c.name, c.kwargs, c.warmup, got, err, c.want)
		}
	}
	adaptive, err := lr.AdaptiveByName("reduce_lr_on_plateau", map[string]any{"patience": 0, "mode": lr.Max})
	if want := (lr.ReduceLROnPlateau{Patience: new(0), Mode: lr.Max}); err != nil || !reflect.DeepEqual(adaptive,
		lr.Adaptive(want)) {
		t.Errorf("AdaptiveByName = %#v, %v; want %#v", adaptive, err, want)
	}
}

func TestByNameSaysWhatIsWrong(t *testing.T) {
	type args = map[string]any
	for _, c := range []struct {
		claim, name string
		kwargs      args
		warmup      float64
		want        string
	}{
		{"a slip in a name", "cosine_with_restart", nil, 0,
			`unknown schedule "cosine_with_restart"; did you mean "cosine_with_restarts"?`},
		{"capitals do not hide a name", "steplr", nil, 0, `did you mean "StepLR"?`},
		{"a name like no other", "xyzzyxyzzyxyzzy", nil, 0,
			`unknown schedule "xyzzyxyzzyxyzzy"; known: ChainedScheduler, `},
		{"a slip in an argument", "cosine", args{"num_cycle": 1}, 0,
			`unknown argument of cosine "num_cycle"; did you mean "num_cycles"?`},
		{"no argument at all", "constant", args{"x": 1}, 0, `unknown argument of constant "x"; it takes none`},
		{"text for a number", "cosine", args{"num_cycles": "two"}, 0, "cosine was given num_cycles = two (string): " +
			"want a number"},
		{"a fraction for a count", "StepLR", args{"step_size": 2.5}, 0,
			"step_size = 2.5 (float64): want a whole number"},
		{"a count beyond reason", "StepLR", args{"step_size": 1e300}, 0, "want a whole number below 2^31"},
		{"zero where zero means a default", "StepLR", args{"step_size": 1, "gamma": 0}, 0,
			"gamma = 0 (int): want a number other than 0"},
		{"zero cycles", "CosineAnnealingLR", args{"T_max": 0}, 0, "T_max = 0 (int): want a positive whole number"},
		{"text for a switch", "OneCycleLR", args{"three_phase": "yes"}, 0, "want true or false"},
		{"a number for text", "OneCycleLR", args{"anneal_strategy": 3}, 0, "want a string"},
		{"an unknown strategy", "OneCycleLR", args{"anneal_strategy": "cosine"}, 0,
			`OneCycleLR.AnnealStrategy is cosine: want "cos", "linear"`},
		{"a number for a list", "MultiStepLR", args{"milestones": 3}, 0, "want a list of whole numbers"},
		{"text in a list", "MultiStepLR", args{"milestones": []any{1, "2"}}, 0, "want whole numbers below 2^31 only"},
		{"a wrong function", "LambdaLR", args{"lr_lambda": func() {}}, 0, "want a func(int) float64"},
		{"a missing argument", "ExponentialLR", nil, 0, "ExponentialLR has no gamma: want it set; it has no default"},
		{"neither floor", "cosine_with_min_lr", nil, 0, "has no min_lr: want it or min_lr_rate set"},
		{"both floors", "cosine_with_min_lr", args{"min_lr": 0.1, "min_lr_rate": 0.1}, 0,
			"want only one of it and min_lr set"},
		{"a warmup where there is none", "StepLR", args{"step_size": 1}, 10,
			"StepLR was given warmup = 10 (float64): want 0"},
		{"a warmup of a constant", "constant", nil, 10,
			`want 0: this schedule has none of its own (transformers' "constant_with_warmup" has`},
		{"noise without a range", "StepLRScheduler", args{"decay_t": 3, "noise_pct": 0.1}, 0, "has no noise_range_t"},
		{"noise with half a range", "StepLRScheduler", args{"decay_t": 3, "noise_range_t": []any{1}}, 0,
			"the first update with noise, or a list"},
		{"two warmups", "linear", args{"num_warmup_steps": 3}, 10, "want it in one place only"},
		{"a negative warmup", "linear", nil, -1, "Linear.Warmup is -1"},
		{"epochs of unknown length", "OneCycleLR", args{"epochs": 3}, 0, "OneCycleLR has no steps_per_epoch: want it " +
			"set beside epochs"},
		{"a schedule that follows a metric", "greedy", nil, 0,
			`"greedy" follows a measured value, not the number of the update: use AdaptiveByName`},
		{"a part that is unknown", "ChainedScheduler", args{"schedulers": []any{args{"name": "StepLRR"}}}, 0,
			`ChainedScheduler.schedulers[0]: lr: unknown schedule "StepLRR"`},
		{"a part without a name", "ChainedScheduler", args{"schedulers": []any{args{}}}, 0,
			"schedulers[0] has no name"},
		{"a part that is text", "ChainedScheduler", args{"schedulers": []any{"StepLR"}}, 0,
			`want a []Schedule, or a list of maps`},
		{"too few milestones", "SequentialLR", args{"schedulers": []any{args{"name": "linear"}, args{"name": "cosine"}},
			"milestones": []any{}}, 0, "one less than there are schedules, which are 2"},
	} {
		if _, err := lr.ByName(c.name, c.kwargs, c.warmup); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: ByName(%q, %v, %v) = %v\nwant text with %q", c.claim, c.name, c.kwargs, c.warmup, err, c.want)
		}
	}
	var unknown *lr.UnknownError
	if _, err := lr.AdaptiveByName("gredy", nil); !errors.As(err, &unknown) || !strings.Contains(err.Error(),
		`did you mean "greedy"?`) {
		t.Errorf(`AdaptiveByName("gredy") = %v, want an *UnknownError that suggests "greedy"`, err)
	}
	if _, err := lr.AdaptiveByName("linear", nil); err == nil || !strings.Contains(err.Error(), "use ByName") {
		t.Errorf(`AdaptiveByName("linear") = %v, want an error that points to ByName`, err)
	}
	if _, err := lr.AdaptiveByName("greedy", map[string]any{"patients": 3}); !errors.As(err, &unknown) ||
		!slices.Contains(unknown.Known, "patience") {
		t.Errorf(`AdaptiveByName("greedy", patients) = %v, want an *UnknownError that knows "patience"`, err)
	}
}

func TestComposedSchedulesCheckTheirParts(t *testing.T) {
	inner := lr.SequentialLR{Schedules: []lr.Schedule{lr.Linear{}}}
	for _, c := range []struct {
		schedule lr.Schedule
		want     string
	}{
		{lr.SequentialLR{}, "SequentialLR.Schedules is empty"},
		{lr.ChainedScheduler{}, "ChainedScheduler.Schedules is empty"},
		{lr.PerEpoch{Updates: 3}, "PerEpoch.Schedule is nil"},
		{lr.PerEpoch{Schedule: lr.StepLR{}, Updates: 3}, "StepLR.StepSize is 0"},
		{lr.PerEpoch{Schedule: lr.Linear{}}, "PerEpoch.Updates is 0: want the number of updates of an epoch: there is no"},
		{lr.PerEpoch{Schedule: lr.Linear{}, Updates: -1}, "PerEpoch.Updates is -1"},
		{lr.SequentialLR{Schedules: []lr.Schedule{lr.PerEpoch{Schedule: lr.Linear{}}}}, "PerEpoch.Updates is 0"},
		{lr.TimmNoise{Schedule: lr.PerEpoch{Schedule: lr.Linear{}}}, "PerEpoch.Updates is 0"},
		{lr.ChainedScheduler{Schedules: []lr.Schedule{nil}}, "ChainedScheduler.Schedules[0] is nil"},
		{lr.ChainedScheduler{Schedules: []lr.Schedule{lr.StepLR{StepSize: -1}}},
			"ChainedScheduler.Schedules[0]: lr: StepLR.StepSize is -1"},
		{lr.SequentialLR{Schedules: []lr.Schedule{lr.Linear{}, lr.Linear{}, lr.Linear{}}, Milestones: []int{9, 5}},
			"each greater than the one before"},
		{lr.SequentialLR{Schedules: []lr.Schedule{lr.Linear{}, inner}, Milestones: []int{9}},
			"Schedules[1] is a lr.SequentialLR"},
		{lr.SequentialLR{Schedules: []lr.Schedule{lr.Polynomial{LREnd: new(0.5)}}},
			"SequentialLR.Schedules[0]: lr: Polynomial.LREnd is 0.5: want less than the peak rate"},
		{lr.PerEpoch{Schedule: lr.TimmWSD{DecayT: 30}, Updates: 10}, "TimmWSD.DecayT is 30: want no more updates than"},
		{lr.PytorchAcceleratedWSD{WarmupStartingLR: new(0.5)}, "WarmupStartingLR is 0.5: want at most the peak rate"},
		{lr.PytorchAcceleratedWSD{LRMin: new(0.0), InverseProportion: true, Corrected: true},
			"PytorchAcceleratedWSD.LRMin is 0: want more than 0"},
		{lr.TimmWSD{DecayT: 3, StableFn: "rsqrt"}, "TimmWSD.StableTimescale is 0"},
		{lr.MultiplicativeLR{}, "MultiplicativeLR.Lambda is nil"},
	} {
		if err := lr.Validate(c.schedule, 0.1, 100); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Validate(%#v, 0.1, 100) = %v, want text with %q", c.schedule, err, c.want)
		}
		c.schedule.Plan(0.1, 100)(20) // does not panic nevertheless
	}
}

func TestDecayLongerThanTheRunIsTakenAsInTransformers(t *testing.T) {
	s := lr.WarmupStableDecay{Warmup: 50, DecaySteps: 60, DecayType: lr.LinearCurve}
	for _, s := range []lr.Schedule{lr.CosineWithMinLR{MinLR: 1e-4}, lr.CosineWarmupWithMinLR{MinLR: 1e-4}} {
		if err := lr.Validate(s, 0, 100); err == nil || !strings.Contains(err.Error(), "MinLR") {
			t.Errorf("Validate(%#v, 0, 100) = %v: a lowest rate is no share of a peak of 0", s, err)
		}
		if err := lr.Validate(s, 1e-3, 100); err != nil {
			t.Error(err)
		}
	}
	if err := lr.Validate(lr.Polynomial{}, 0.1, 0); err == nil {
		t.Error("Polynomial was planned for zero updates, by which PyTorch divides")
	}
	for _, name := range []string{"StepLR", "cosine"} {
		kwargs := map[string]any{"last_epoch": -1}
		if name == "StepLR" {
			kwargs["step_size"] = 2
		}
		if _, err := lr.ByName(name, kwargs, 0); err != nil {
			t.Errorf("%s with last_epoch -1, its default: %v", name, err)
		}
		kwargs["last_epoch"] = 3
		if _, err := lr.ByName(name, kwargs, 0); err == nil || !strings.Contains(err.Error(), "last_epoch") {
			t.Errorf("%s with last_epoch 3: %v, want a refusal", name, err)
		}
	}
	if err := lr.Validate(s, 0.1, 100); err != nil {
		t.Error(err)
	}
	rate := s.Plan(1, 100)
	// the decay already began at update 40, during the warmup
	if before, after := rate(49), rate(50); before != 0.98 || after != 1-10.0/60 {
		t.Errorf("the rates around the end of the warmup are %v and %v, want 0.98 and %v", before, after, 1-10.0/60)
	}
}

func FuzzByName(f *testing.F) {
	for _, name := range lr.Names() {
		f.Add(name, `{}`, 0.0)
		f.Add(name, `{"num_cycles":2,"gamma":0.5,"step_size":3,"T_max":10,"decay_t":5,"total_steps":7}`, 3.0)
	}
	f.Add("SequentialLR",
		`{"schedulers":[{"name":"LinearLR"},{"name":"OneCycleLR","kwargs":{"total_steps":5}}],"milestones":[3]}`, 0.0)
	f.Add("MultiStepLR", `{"milestones":[3,5,5]}`, 0.0)
	f.Add("WSDLrScheduler", `{"num_checkpoints":3,"decay_phase_ratio":0.3}`, 0.0)
	f.Fuzz(func(t *testing.T, name, kwargs string, warmup float64) {
		var args map[string]any
		if json.Unmarshal([]byte(kwargs), &args) != nil {
			return
		}
		if a, err := lr.AdaptiveByName(name, args); err == nil {
			if c, err := a.Start(0.1); err == nil {
				for i := range 30 {
					if r := c.Observe(float64(i % 7)); !(r >= 0) {
						t.Errorf("%s(%s): rate %v", name, kwargs, r)
					}
				}
			}
		}
		s, err := lr.ByName(name, args, warmup)
		if err != nil {
			return
		}
		rate := s.Plan(0.1, 20)
		for update := range 40 {
			rate(update)
		}
		if m, ok := s.(lr.MomentumSchedule); ok {
			if momentum := m.PlanMomentum(20); momentum != nil {
				momentum(30)
			}
		}
	})
}
