package lr

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
)

// StepLimit is the number of steps behind which the original of a schedule fails, in a run of so
// many updates: PyTorch's OneCycleLR at the end of its cycle, and WSDLrScheduler of
// pytorch-accelerated where it divides by zero, which it does in a decay that is shorter than a
// step, and in one that is in inverse proportion to a rate of zero. Negative: it never does. The
// schedules of this package keep the last rate; this asks for Python's failure.
func StepLimit(s Schedule, updates int) int {
	switch s := s.(type) {
	case OneCycleLR:
		return cmp.Or(s.TotalSteps, updates)
	case PytorchAcceleratedWSD:
		return s.stepLimit(updates)
	}
	return -1
}

func (a PytorchAcceleratedWSD) stepLimit(updates int) int {
	if a.Corrected {
		return -1
	}
	checkpoints, step := a.CheckpointSteps(cmp.Or(a.TotalSteps, updates)), 0
	if !a.Continuation {
		step = a.WarmupSteps
	}
	for last := max(step, checkpoints[len(checkpoints)-1]); step <= last; step++ {
		period, into := currentPeriod(checkpoints, step)
		decay := int(float64(period) * optional.Or(a.DecayPhaseRatio, 0.1))
		if into >= period-decay && (decay == 0 || a.InverseProportion && optional.Or(a.LRMin, 1e-6) == 0) {
			return step
		}
	}
	return -1
}

// FailsAtOnce tells whether the original of a schedule cannot even be made, in a run of so many
// updates: PyTorch's OneCycleLR divides by zero where PctStart*TotalSteps is 1. The schedules of
// this package take what makes sense there; who wants Python's failure asks here.
func FailsAtOnce(s Schedule, updates int) bool {
	cycle, ok := s.(OneCycleLR)
	return ok && float64(optional.Or(cycle.PctStart, 0.3)*float64(cmp.Or(cycle.TotalSteps, updates))) == 1
}
