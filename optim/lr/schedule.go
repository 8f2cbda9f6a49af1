package lr

import (
	"fmt"
	"math"
)

// Rate gives the learning rate of an update: 0 is the first one of the run. It is a pure function; any number of
// goroutines may call it. Past the planned end it goes on as the formula does: [Linear] stays at zero, [Cosine] rises again.
type Rate func(update int) float64

// Schedule describes how the learning rate changes over a run.
type Schedule interface {
	// Plan fits the schedule to a run of the given number of updates that reaches peak after its warmup.
	Plan(peak float64, updates int) Rate
}

// Validator is implemented by a [Schedule] whose settings can be wrong. trainer.New asks it.
type Validator interface {
	Validate() error
}

// WarmupUpdates resolves the Warmup setting of a schedule for a run of the given number of updates, as
// transformers.TrainingArguments.get_warmup_steps does: 1 or more is a number of updates (the fraction is cut off),
// less is a share of the run, rounded up.
func WarmupUpdates(warmup float64, updates int) int {
	if warmup >= 1 {
		return int(warmup)
	}
	return int(math.Ceil(float64(updates) * warmup))
}

// warmupFactor is the factor of an update during warmup; ok is false after it.
func warmupFactor(update, warmup int) (factor float64, ok bool) {
	if update >= warmup {
		return 0, false
	}
	return float64(update) / float64(max(1, warmup)), true
}

func validateWarmup(schedule string, warmup float64) error {
	if !(warmup >= 0) || math.IsInf(warmup, 0) || warmup > math.MaxInt32 {
		return fmt.Errorf("lr: %s.Warmup is %v: want 0, a share of the run below 1, or a number of updates", schedule, warmup)
	}
	return nil
}
