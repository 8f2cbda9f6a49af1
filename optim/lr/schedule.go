package lr

import "math"

// Rate gives the learning rate of an update: 0 is the first one of the run. It is a pure function;
// any number of goroutines may call it. Past the planned end it continues as the formula does:
// [Linear] stays at zero, [Cosine] rises again.
type Rate func(update int) float64

// Schedule describes how the learning rate changes over a run.
type Schedule interface {
	// Plan fits the schedule to a run of the given number of updates that reaches peak after its
	// warmup.
	Plan(peak float64, updates int) Rate
}

// MomentumSchedule is a [Schedule] that moves the optimizer's momentum (of Adam: beta1) too.
type MomentumSchedule interface {
	Schedule
	// PlanMomentum gives the momentum of each update. Nil: this schedule leaves the momentum alone.
	PlanMomentum(updates int) Rate
}

// PlanMomentum gives the momentum that s has for each update. Nil: s leaves the momentum alone.
func PlanMomentum(s Schedule, updates int) Rate {
	if m, ok := s.(MomentumSchedule); ok {
		return m.PlanMomentum(updates)
	}
	return nil
}

// Validator is implemented by a [Schedule] whose settings can be wrong. trainer.New asks it.
type Validator interface {
	Validate() error
}

// PlanValidator is implemented by a [Schedule] whose settings can be right for one run and wrong
// for another.
type PlanValidator interface {
	ValidatePlan(peak float64, updates int) error
}

// Validate reports what is wrong with the settings of s, in themselves and for this run. Plan
// itself never fails: with settings that Validate refuses its rates are of no use.
func Validate(s Schedule, peak float64, updates int) error {
	if v, ok := s.(Validator); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	if v, ok := s.(PlanValidator); ok {
		return v.ValidatePlan(peak, updates)
	}
	return nil
}

// WarmupUpdates resolves the Warmup setting of a schedule for a run of the given number of updates,
// as transformers.TrainingArguments.get_warmup_steps does: 1 or more is a number of updates (the
// fraction is cut off), less is a share of the run, rounded up.
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

// factors is the plan of the schedules of transformers: a linear warmup, then the peak times a
// factor.
func factors(peak float64, warmup int, factor func(update int) float64) Rate {
	return func(update int) float64 {
		if f, ok := warmupFactor(update, warmup); ok {
			return peak * f
		}
		return peak * factor(update)
	}
}

func validateWarmup(schedule string, warmup float64) error {
	c := checks{schedule: schedule}
	c.warmup(warmup)
	return c.err
}
