package lr

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
)

// StepLimit returns the number of steps after which the original of a schedule fails, in a run of
// the given number of updates, or a negative number if it never fails. PyTorch's OneCycleLR fails
// at the end of its cycle. WSDLrScheduler of pytorch-accelerated divides by zero in a decay
// shorter than a step, and in one in inverse proportion to a rate of zero. The schedules of this
// package keep the last rate instead. StepLimit is for programs that need to fail like Python.
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

// FailsAtOnce reports whether the original of a schedule cannot even be constructed for a run of
// the given number of updates: PyTorch's OneCycleLR divides by zero if PctStart*TotalSteps is 1.
// The schedules of this package do something sensible in that case. FailsAtOnce is for programs
// that need to fail like Python.
func FailsAtOnce(s Schedule, updates int) bool {
	cycle, ok := s.(OneCycleLR)
	return ok && float64(optional.Or(cycle.PctStart, 0.3)*float64(cmp.Or(cycle.TotalSteps, updates))) == 1
}
