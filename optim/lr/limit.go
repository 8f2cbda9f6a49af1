package lr

// StepLimit is the number of steps behind which the original of a schedule fails, in a run of so many updates: PyTorch's OneCycleLR at the end of its cycle, and
// WSDLrScheduler of pytorch-accelerated at its last checkpoint where a decay is shorter than a step. 0: it never does. The schedules of this package go on at
// the last rate; who wants Python's failure asks here.
func StepLimit(s Schedule, updates int) int {
	switch s := s.(type) {
	case OneCycleLR:
		return orZero(s.TotalSteps, updates)
	case AcceleratedWSD:
		checkpoints := s.CheckpointSteps(orZero(s.TotalSteps, updates))
		if s.Corrected || int(float64(checkpoints[0])*or(s.DecayPhaseRatio, 0.1)) > 0 {
			return 0
		}
		last := checkpoints[len(checkpoints)-1]
		if !s.Continuation {
			last = max(last, s.WarmupSteps)
		}
		return last
	}
	return 0
}

// FailsAtOnce tells whether the original of a schedule cannot even be made, in a run of so many updates: PyTorch's OneCycleLR divides by zero where
// PctStart*TotalSteps is 1. The schedules of this package take what makes sense there; who wants Python's failure asks here.
func FailsAtOnce(s Schedule, updates int) bool {
	cycle, ok := s.(OneCycleLR)
	return ok && float64(or(cycle.PctStart, 0.3)*float64(orZero(cycle.TotalSteps, updates))) == 1
}
