package lr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCorrectedAcceleratedSchedules(t *testing.T) {
	for _, c := range []struct {
		name     string
		schedule Schedule
		want     []float64 // for a run of 10 updates with a peak of 1
	}{
		{"cosine without warmup begins at the peak and nears the minimum at the end",
			PytorchAcceleratedCosine{LRMin: new(0.0),
				Corrected: true},
			[]float64{1, 0.98, 0.9, 0.79, 0.65, 0.5, 0.35, 0.21, 0.1, 0.02}},
		{"cosine is not cut off before its end by a warmup", PytorchAcceleratedCosine{LRMin: new(0.0), WarmupSteps: 4,
			WarmupStartingLR: new(0.2), CooldownSteps: 2, Corrected: true},
			[]float64{0.2, 0.4, 0.6, 0.8, 1, 0.85, 0.5, 0.15, 0, 0}},
		{"a warmup that begins at a share ends at the peak", PytorchAcceleratedCosine{LRMin: new(0.0), WarmupSteps: 2,
			WarmupStartingLRRatio: new(0.5), Corrected: true},
			[]float64{0.5, 0.75, 1, 0.96, 0.85, 0.69, 0.5, 0.31, 0.15, 0.04}},
		{"the warmup of wsd comes first", PytorchAcceleratedWSD{WarmupSteps: 2, WarmupStartingLR: new(0.2),
			DecayPhaseRatio: new(0.2), LRMin: new(0.0), Corrected: true},
			[]float64{0.2, 0.6, 1, 1, 1, 1, 1, 1, 1, 0.29}},
		{"the last checkpoint of wsd is the end of the run", PytorchAcceleratedWSD{DecayPhaseRatio: new(0.2),
			LRMin:       new(0.5),
			Checkpoints: 2, InverseProportion: true, Corrected: true},
			[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Validate(c.schedule, 1, 10); err != nil {
				t.Fatal(err)
			}
			rate := c.schedule.Plan(1, 10)
			var got []float64
			for update := range c.want {
				got = append(got, float64(int(100*rate(update)+0.5))/100)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCorrectedCheckpointsEndWithTheRun(t *testing.T) {
	for _, c := range []struct {
		name         string
		checkpoints  int
		want, python []int
	}{
		{"one", 1, []int{100}, []int{100}},
		{"two", 2, []int{50, 100}, []int{25, 50}},
		{"three", 3, []int{25, 50, 100}, []int{25, 50, 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := PytorchAcceleratedWSD{Checkpoints: c.checkpoints}
			if diff := cmp.Diff(c.python, w.CheckpointSteps(100)); diff != "" {
				t.Errorf("as in Python: %s", diff)
			}
			w.Corrected = true
			if diff := cmp.Diff(c.want, w.CheckpointSteps(100)); diff != "" {
				t.Errorf("corrected: %s", diff)
			}
		})
	}
}

func TestPlanFromBeginsWherePyTorchDoes(t *testing.T) {
	for _, c := range []struct {
		name     string
		schedule Schedule
		want     []float64 // from 0.5, of a peak of 1
	}{
		{"a scheduler that computes from the last rate continues", StepLR{StepSize: 2, Gamma: 0.5},
			[]float64{0.5, 0.5, 0.25, 0.25}},
		{"a scheduler that computes from the peak begins there", LambdaLR{Lambda: func(int) float64 { return 1 }},
			[]float64{1, 1, 1, 1}},
		{"another schedule begins at the peak", PytorchAcceleratedCosine{LRMin: new(1.0)}, []float64{1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rate := PlanFrom(c.schedule, 0.5, 1, 4)
			var got []float64
			for update := range c.want {
				got = append(got, rate(update))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
