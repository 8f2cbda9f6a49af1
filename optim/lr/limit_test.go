package lr_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/optim/lr"
)

func TestStepLimit(t *testing.T) {
	for _, c := range []struct {
		claim    string
		schedule lr.Schedule
		updates  int
		want     int
	}{
		{"most schedules never fail", lr.StepLR{StepSize: 2}, 10, -1},
		{"a cycle fails behind its end", lr.OneCycleLR{MaxLR: 1, TotalSteps: 7}, 10, 7},
		{"a cycle of no length of its own fails behind the run's", lr.OneCycleLR{MaxLR: 1}, 10, 10},
		{"a decay of a whole step can be computed", lr.PytorchAcceleratedWSD{}, 10, -1},
		{"a decay shorter than a step divides by zero at the checkpoint", lr.PytorchAcceleratedWSD{}, 9, 9},
		{"several checkpoints end before the run", lr.PytorchAcceleratedWSD{Checkpoints: 2}, 20, 10},
		{"a longer warmup puts the failure off", lr.PytorchAcceleratedWSD{WarmupSteps: 12}, 9, 12},
		{"a continuation has no warmup", lr.PytorchAcceleratedWSD{WarmupSteps: 12, Continuation: true}, 9, 9},
		{"a decay in inverse proportion to nothing divides by zero where it begins",
			lr.PytorchAcceleratedWSD{InverseProportion: true, LRMin: new(0.0)}, 20, 18},
		{"it may begin at once", lr.PytorchAcceleratedWSD{InverseProportion: true, LRMin: new(0.0),
			DecayPhaseRatio: new(1.0)},
			20, 0},
		{"a warmup that ends in the decay puts it off", lr.PytorchAcceleratedWSD{InverseProportion: true,
			LRMin:       new(0.0),
			WarmupSteps: 19}, 20, 19},
		{"several checkpoints in less than four steps are all at 0", lr.PytorchAcceleratedWSD{Checkpoints: 3}, 3, 0},
		{"the corrected schedule never fails", lr.PytorchAcceleratedWSD{Corrected: true}, 9, -1},
	} {
		if got := lr.StepLimit(c.schedule, c.updates); got != c.want {
			t.Errorf("%s: StepLimit(%+v, %d) = %d, want %d", c.claim, c.schedule, c.updates, got, c.want)
		}
	}
}

func TestFailsAtOnceIsWherePyTorchDividesByZero(t *testing.T) {
	share := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		claim    string
		schedule lr.Schedule
		updates  int
		want     bool
	}{
		{"the top is before the first update", lr.OneCycleLR{PctStart: share(0.25), TotalSteps: 4}, 9, true},
		{"of the run's updates too", lr.OneCycleLR{PctStart: share(0.5)}, 2, true},
		{"in three phases too", lr.OneCycleLR{PctStart: share(0.25), TotalSteps: 4, ThreePhase: true}, 9, true},
		{"a top between updates", lr.OneCycleLR{TotalSteps: 3}, 9, false},
		{"no rise", lr.OneCycleLR{PctStart: share(0), TotalSteps: 4}, 9, false},
		{"another schedule", lr.StepLR{StepSize: 1}, 1, false},
	} {
		if got := lr.FailsAtOnce(c.schedule, c.updates); got != c.want {
			t.Errorf("%s: FailsAtOnce(%+v, %d) = %v, want %v", c.claim, c.schedule, c.updates, got, c.want)
		}
	}
}
