package lr

import "math"

// Rate returns the learning rate of an update; 0 is the first one of the run. It is a pure
// function and safe for concurrent use. Past the planned end it continues as the formula does:
// [Linear] stays at zero, [Cosine] rises again.
type Rate func(update int) float64

// Schedule describes how the learning rate changes over a run.
type Schedule interface {
	// Plan fits the schedule to a run of the given number of updates that reaches peak after its
	// warmup.
	Plan(peak float64, updates int) Rate
}

// MomentumSchedule is a [Schedule] that also changes the optimizer's momentum (beta1 for Adam).
type MomentumSchedule interface {
	Schedule
	// PlanMomentum returns the momentum of each update, or nil if this schedule does not change
	// it.
	PlanMomentum(updates int) Rate
}

// PlanMomentum returns the momentum that s sets for each update, or nil if s does not change it.
func PlanMomentum(s Schedule, updates int) Rate {
	if m, ok := s.(MomentumSchedule); ok {
		return m.PlanMomentum(updates)
	}
	return nil
}

// Validator is implemented by a [Schedule] whose settings may be invalid. trainer.New calls it.
type Validator interface {
	Validate() error
}

// PlanValidator is implemented by a [Schedule] whose settings may be valid for one run and invalid
// for another.
type PlanValidator interface {
	ValidatePlan(peak float64, updates int) error
}

// Validate returns an error that says what is wrong with the settings of s, in general or for this
// run. Plan itself never fails: with settings that Validate refuses, its rates are meaningless.
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

// WarmupUpdates resolves the Warmup setting of a schedule for a run of the given number of
// updates, as transformers.TrainingArguments.get_warmup_steps does. A value of 1 or more is a
// number of updates, truncated to an integer; a smaller value is a share of the run, rounded up.
func WarmupUpdates(warmup float64, updates int) int {
	if warmup >= 1 {
		return int(warmup)
	}
	return int(math.Ceil(float64(updates) * warmup))
}

// warmupFactor returns the factor of an update during warmup; ok is false after the warmup.
func warmupFactor(update, warmup int) (factor float64, ok bool) {
	if update >= warmup {
		return 0, false
	}
	return float64(update) / float64(max(1, warmup)), true
}

// factors returns the plan of a schedule of transformers: a linear warmup, then the peak times a
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
