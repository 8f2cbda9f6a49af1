package lr_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/optim/lr"
	"pgregory.net/rapid"
)

func TestWarmupUpdates(t *testing.T) {
	for _, c := range []struct {
		claim   string
		warmup  float64
		updates int
		want    int
	}{
		{"zero is none", 0, 100, 0},
		{"a share is rounded up", 0.1, 14, 2},
		{"a share of an exact part is exact", 0.5, 10, 5},
		{"one is one update, not the whole run", 1, 100, 1},
		{"the fraction of a number of updates is cut off", 3.7, 100, 3},
		{"more than the run is kept", 200, 10, 200},
	} {
		if got := lr.WarmupUpdates(c.warmup, c.updates); got != c.want {
			t.Errorf("%s: WarmupUpdates(%v, %d) = %d, want %d", c.claim, c.warmup, c.updates, got, c.want)
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for _, c := range []struct {
		schedule lr.Validator
		want     string
	}{
		{lr.Linear{Warmup: -1}, "Linear.Warmup is -1"},
		{lr.ConstantWithWarmup{Warmup: math.NaN()}, "ConstantWithWarmup.Warmup is NaN"},
		{lr.Cosine{Warmup: math.Inf(1)}, "Cosine.Warmup is +Inf"},
		{lr.Cosine{Cycles: -0.5}, "Cosine.Cycles is -0.5"},
	} {
		if err := c.schedule.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%#v.Validate() = %v, want text with %q", c.schedule, err, c.want)
		}
	}
	if err := (lr.Cosine{Warmup: 0.1, Cycles: 2}).Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func TestEveryRateLiesBetweenZeroAndThePeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		updates := rapid.IntRange(1, 2000).Draw(t, "updates")
		warmup := rapid.Float64Range(0, 3000).Draw(t, "warmup")
		peak := rapid.Float64Range(1e-9, 10).Draw(t, "peak")
		update := rapid.IntRange(0, 4000).Draw(t, "update")
		for _, s := range []lr.Schedule{lr.Linear{Warmup: warmup}, lr.Cosine{Warmup: warmup},
			lr.ConstantWithWarmup{Warmup: warmup}} {
			if r := s.Plan(peak, updates)(update); !(r >= 0 && r <= peak) {
				t.Fatalf("%#v.Plan(%v, %d)(%d) = %v, want between 0 and the peak", s, peak, updates, update, r)
			}
		}
	})
}
