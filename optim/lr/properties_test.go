package lr_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// anySchedule draws a schedule of any kind, with settings that pass Validate.
func anySchedule(t *rapid.T) lr.Schedule {
	simple := anySimple(t)
	switch rapid.IntRange(0, 5).Draw(t, "composed") {
	case 0:
		return lr.SequentialLR{Schedules: []lr.Schedule{simple, anySimple(t)},
			Milestones: []int{rapid.IntRange(1, 100).Draw(t, "milestone")}}
	case 1:
		return lr.ChainedScheduler{Schedules: []lr.Schedule{simple, anySimple(t)}}
	case 2:
		return lr.PerEpoch{Schedule: simple, Updates: rapid.IntRange(1, 40).Draw(t, "updates of an epoch")}
	}
	return simple
}

func anySimple(t *rapid.T) lr.Schedule {
	n := func(name string) int { return rapid.IntRange(1, 60).Draw(t, name) }
	share := func(name string) float64 { return rapid.Float64Range(0.01, 0.99).Draw(t, name) }
	warmup := rapid.Float64Range(0, 60).Draw(t, "warmup")
	return rapid.SampledFrom([]func() lr.Schedule{
		func() lr.Schedule { return lr.Constant{} },
		func() lr.Schedule { return lr.ConstantWithWarmup{Warmup: warmup} },
		func() lr.Schedule { return lr.Linear{Warmup: warmup} },
		func() lr.Schedule { return lr.Cosine{Warmup: warmup} },
		func() lr.Schedule { return lr.CosineWithRestarts{Warmup: warmup, Cycles: float64(n("cycles"))} },
		func() lr.Schedule { return lr.CosineWithMinLR{Warmup: warmup, MinLRRate: share("floor")} },
		func() lr.Schedule { return lr.CosineWarmupWithMinLR{Warmup: warmup, MinLRRate: share("floor")} },
		func() lr.Schedule { return lr.Polynomial{Warmup: warmup, Power: new(2 * share("power"))} },
		func() lr.Schedule { return lr.InverseSqrt{Warmup: warmup} },
		func() lr.Schedule {
			return lr.WarmupStableDecay{Warmup: warmup, DecaySteps: n("decay"), StableSteps: new(n("stable")),
				DecayType: lr.OneMinusSqrt}
		},
		func() lr.Schedule { return lr.StepLR{StepSize: n("size"), Gamma: share("gamma")} },
		func() lr.Schedule { return lr.MultiStepLR{Milestones: []int{n("first"), n("second")}} },
		func() lr.Schedule { return lr.ConstantLR{Factor: share("factor"), TotalIters: new(n("iters"))} },
		func() lr.Schedule { return lr.LinearLR{StartFactor: share("start"), TotalIters: n("iters")} },
		func() lr.Schedule { return lr.PolynomialLR{TotalIters: n("iters")} },
		func() lr.Schedule { return lr.ExponentialLR{Gamma: share("gamma")} },
		func() lr.Schedule { return lr.MultiplicativeLR{Lambda: func(int) float64 { return 0.9 }} },
		func() lr.Schedule { return lr.LambdaLR{Lambda: func(u int) float64 { return 1 / float64(1+u) }} },
		func() lr.Schedule { return lr.CosineAnnealingLR{TMax: n("T_max")} },
		func() lr.Schedule { return lr.CosineAnnealingWarmRestarts{T0: n("T_0"), TMult: 2} },
		func() lr.Schedule { return lr.CyclicLR{StepSizeUp: n("up"), Mode: lr.Triangular2} },
		func() lr.Schedule { return lr.OneCycleLR{TotalSteps: 20 + n("total"), ThreePhase: warmup > 30} },
		func() lr.Schedule {
			return lr.TimmCosine{TimmWarmup: lr.TimmWarmup{WarmupT: n("warmup_t")}, TInitial: n("t_initial"),
				TimmCycles: lr.TimmCycles{CycleLimit: 3, CycleMul: 2}}
		},
		func() lr.Schedule { return lr.TimmTanh{TInitial: n("t_initial")} },
		func() lr.Schedule { return lr.TimmPoly{TInitial: n("t_initial"), KDecay: 1 + share("k")} },
		func() lr.Schedule {
			return lr.TimmStep{DecayT: float64(n("decay_t")) / 2, DecayRate: new(share("rate"))}
		},
		func() lr.Schedule { return lr.TimmMultiStep{DecayT: []int{5, 9}, DecayRate: new(share("rate"))} },
		func() lr.Schedule { return lr.TimmWSD{DecayT: 5, TInitial: 5 + n("stable"), DecayFn: "exp"} },
		func() lr.Schedule { return lr.PytorchAcceleratedCosine{CooldownSteps: n("cooldown"), LRMin: new(0.0)} },
		func() lr.Schedule {
			return lr.PytorchAcceleratedWSD{WarmupSteps: n("warmup"), Checkpoints: 3, WarmupStartingLR: new(0.0)}
		},
	}).Draw(t, "schedule")()
}

func TestNoRateIsNegativeOrAboveThePeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, peak, updates := anySchedule(t), rapid.Float64Range(1e-6, 10).Draw(t, "peak"),
			rapid.IntRange(50, 200).Draw(t, "updates")
		if err := lr.Validate(s, peak, updates); err != nil {
			t.Skip(err)
		}
		rate, highest := s.Plan(peak, updates), peak
		if _, ok := s.(lr.ChainedScheduler); ok {
			highest = math.MaxFloat64 // ConstantLR divides by its factor, even if another schedule has overwritten the rate
		}
		for update := range updates + 50 {
			if r := rate(update); !(r >= -1e-15*peak && r <= highest*(1+1e-9)) {
				t.Fatalf("%#v.Plan(%v, %d)(%d) = %v, want between 0 and the peak", s, peak, updates, update, r)
			}
		}
	})
}

// The rate and the momentum of an update are the same, in whatever order and however often they are
// requested.
func TestARateDependsOnNothingButTheUpdate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySchedule(t)
		inOrder, anyOrder := s.Plan(0.1, 100), s.Plan(0.1, 100)
		var want [150]float64
		for update := range want {
			want[update] = inOrder(update)
		}
		for _, update := range rapid.SliceOfN(rapid.IntRange(0, len(want)-1), 1, 50).Draw(t, "updates") {
			if got := anyOrder(update); got != want[update] {
				t.Fatalf("%#v.Plan(0.1, 100)(%d) = %v, want %v as in order", s, update, got, want[update])
			}
		}
		for update := range want {
			if got := inOrder(update); got != want[update] {
				t.Fatalf("%#v.Plan(0.1, 100)(%d) = %v the second time, want %v", s, update, got, want[update])
			}
		}
	})
}

func TestGoroutinesMayShareARate(t *testing.T) {
	schedule := lr.SequentialLR{Schedules: []lr.Schedule{lr.LinearLR{}, lr.OneCycleLR{}}, Milestones: []int{5}}
	rate, momentum := schedule.Plan(0.1, 500), schedule.PlanMomentum(500)
	alone, aloneMomentum := schedule.Plan(0.1, 500), schedule.PlanMomentum(500)
	var all sync.WaitGroup
	for first := range 8 {
		all.Go(func() {
			for update := first * 60; update >= 0; update -= 7 {
				if got, want := rate(update), alone(update); got != want {
					t.Errorf("rate(%d) = %v, want %v", update, got, want)
				}
				if got, want := momentum(update), aloneMomentum(update); got != want {
					t.Errorf("momentum(%d) = %v, want %v", update, got, want)
				}
			}
		})
	}
	all.Wait()
}

func TestSchedulesEndWhereTheyPromise(t *testing.T) {
	const peak, updates = 0.3, 90
	for _, c := range []struct {
		claim    string
		schedule lr.Schedule
		update   int
		want     float64
	}{
		{"linear ends at zero", lr.Linear{Warmup: 7}, updates, 0},
		{"linear reaches the peak after the warmup", lr.Linear{Warmup: 7}, 7, peak},
		{"cosine ends at zero", lr.Cosine{Warmup: 7}, updates, 0},
		{"restarts end at zero and stay there", lr.CosineWithRestarts{Cycles: 3}, updates + 40, 0},
		{"a floor is the end", lr.CosineWithMinLR{MinLR: 0.01}, updates, 0.01},
		{"a floor counted from one is reached at the last update", lr.CosineWarmupWithMinLR{Warmup: 7, MinLRRate: 0.1},
			updates - 1, 0.03},
		{"a warmup counted from one begins above zero", lr.CosineWarmupWithMinLR{Warmup: 10}, 0, peak / 10},
		{"polynomial ends at lr_end", lr.Polynomial{LREnd: new(0.002), Power: new(3.0)}, updates, 0.002},
		{"polynomial stays at lr_end", lr.Polynomial{LREnd: new(0.002), Power: new(3.0)}, 10 * updates, 0.002},
		{"a polynomial that is all warmup ends at lr_end", lr.Polynomial{Warmup: 90}, updates, 1e-7},
		{"inverse square root halves after four timescales", lr.InverseSqrt{Warmup: 10}, 40, peak / 2},
		{"warmup_stable_decay ends at its ratio", lr.WarmupStableDecay{Warmup: 5, DecaySteps: 20, MinLRRatio: 0.1},
			updates, 0.03},
		{"one cycle ends far below its start", lr.OneCycleLR{}, updates - 1, peak / 25 / 1e4},
		{"one cycle stays at its end", lr.OneCycleLR{}, 5 * updates, peak / 25 / 1e4},
		{"one cycle whose rise is one update begins at the peak", lr.OneCycleLR{TotalSteps: 10, PctStart: new(0.1)}, 0,
			peak},
		{"PolynomialLR ends at zero", lr.PolynomialLR{TotalIters: 50}, 50, 0},
		{"CosineAnnealingLR over the whole run ends at eta_min", lr.CosineAnnealingLR{EtaMin: 0.01}, updates, 0.01},
		{"CosineAnnealingWarmRestarts begins again", lr.CosineAnnealingWarmRestarts{T0: 10, TMult: 2}, 30, peak},
		{"CyclicLR is at the top after the way up", lr.CyclicLR{BaseLR: 0.1, StepSizeUp: 10}, 10, peak},
		{"timm's cosine ends at lr_min", lr.TimmCosine{LRMin: 0.01}, updates, 0.01},
		{"timm's shrinking cycles end at lr_min", lr.TimmCosine{TInitial: 20, LRMin: 0.01,
			TimmCycles: lr.TimmCycles{CycleMul: 0.5, CycleLimit: 50}}, updates, 0.01},
		{"timm's WSD ends at lr_min", lr.TimmWSD{DecayT: 20, LRMin: 0.01}, updates, 0.01},
		{"pytorch-accelerated's WSD ends at its share", lr.PytorchAcceleratedWSD{LRMin: new(0.1)}, updates + 1, 0.03},
		{"pytorch-accelerated's cosine cools down", lr.PytorchAcceleratedCosine{CooldownSteps: 10, LRMin: new(0.01)},
			updates - 5, 0.01},
		{"an epoch has one rate", lr.PerEpoch{Schedule: lr.StepLR{StepSize: 2}, Updates: 10}, 19, peak},
		{"the next epoch has the next", lr.PerEpoch{Schedule: lr.StepLR{StepSize: 2}, Updates: 10}, 20, peak * 0.1},
		{"an update before the first is taken for the first", lr.StepLR{StepSize: 2}, -5, peak},
	} {
		if err := lr.Validate(c.schedule, peak, updates); err != nil {
			t.Errorf("%s: %v", c.claim, err)
		}
		if got := c.schedule.Plan(peak, updates)(c.update); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("%s: %#v.Plan(%v, %d)(%d) = %v, want %v", c.claim, c.schedule, peak, updates, c.update, got,
				c.want)
		}
	}
}

func TestMomentumGoesAgainstTheRate(t *testing.T) {
	one := lr.OneCycleLR{}
	rate, momentum := one.Plan(0.1, 100), one.PlanMomentum(100)
	for update := range 99 {
		if up, down := rate(update+1) > rate(update), momentum(update+1) < momentum(update); up != down {
			t.Errorf("update %d: the rate rises: %v, the momentum falls: %v; want both or none", update, up, down)
		}
	}
	if shaken := (lr.TimmNoise{Schedule: one, From: 3}).PlanMomentum(100); shaken(50) != momentum(50) {
		t.Errorf("with noise the momentum is %v, want %v as without", shaken(50), momentum(50))
	}
	for _, s := range []lr.MomentumSchedule{
		lr.OneCycleLR{FixedMomentum: true}, lr.CyclicLR{FixedMomentum: true},
		lr.SequentialLR{Schedules: []lr.Schedule{lr.Constant{}}},
		lr.ChainedScheduler{Schedules: []lr.Schedule{lr.Linear{}}}, lr.PerEpoch{Schedule: lr.Linear{}},
		lr.PerEpoch{Schedule: lr.OneCycleLR{FixedMomentum: true}}, lr.TimmNoise{Schedule: lr.Linear{}},
	} {
		if s.PlanMomentum(10) != nil {
			t.Errorf("%#v.PlanMomentum is not nil, want the momentum left alone", s)
		}
	}
}

func TestAnEpochIsToldWherePerEpochIs(t *testing.T) {
	inner := lr.PerEpoch{Schedule: lr.StepLR{StepSize: 2}}
	told := lr.PerEpoch{Schedule: lr.StepLR{StepSize: 2}, Updates: 7}
	for _, c := range []struct{ given, want lr.Schedule }{
		{inner, told},
		{told, told},
		{lr.Linear{}, lr.Linear{}},
		{lr.ChainedScheduler{Schedules: []lr.Schedule{lr.Linear{}, inner}},
			lr.ChainedScheduler{Schedules: []lr.Schedule{lr.Linear{}, told}}},
		{lr.SequentialLR{Schedules: []lr.Schedule{inner, lr.Linear{}}, Milestones: []int{3}},
			lr.SequentialLR{Schedules: []lr.Schedule{told, lr.Linear{}}, Milestones: []int{3}}},
		{lr.TimmNoise{Schedule: inner, From: 3}, lr.TimmNoise{Schedule: told, From: 3}},
	} {
		before := fmt.Sprintf("%#v", c.given)
		require.Equal(t, c.want, lr.ForEpochs(c.given, 7))
		require.Equal(t, before, fmt.Sprintf("%#v", c.given), "the arguments are not changed")
	}
}
