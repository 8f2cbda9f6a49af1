package lr

import "cmp"

// EpochSchedule is a [Schedule] that counts epochs and needs to know how many updates an epoch
// has. Package trainer tells it.
type EpochSchedule interface {
	Schedule
	// ForEpochs returns the schedule for epochs of the given number of updates. A number in its
	// own settings takes precedence.
	ForEpochs(updates int) Schedule
}

// ForEpochs returns s for epochs of the given number of updates: a [PerEpoch] in it need not give
// the number itself.
func ForEpochs(s Schedule, updates int) Schedule {
	if e, ok := s.(EpochSchedule); ok {
		return e.ForEpochs(updates)
	}
	return s
}

// PerEpoch makes another schedule count epochs instead of updates, like a scheduler that is
// stepped once per epoch: all updates of an epoch have the same rate.
//
//	lr.PerEpoch{Schedule: lr.StepLR{StepSize: 30}} // a reduction every 30 epochs
//
// A trainer knows how many updates an epoch has. Elsewhere, set Updates or use [ForEpochs].
type PerEpoch struct {
	Schedule Schedule // counts epochs; required
	Updates  int      // updates per epoch; zero: those of the trainer's epochs
}

var (
	_ MomentumSchedule = PerEpoch{}
	_ EpochSchedule    = PerEpoch{}
)

// ForEpochs implements [EpochSchedule].
func (p PerEpoch) ForEpochs(updates int) Schedule {
	p.Updates = cmp.Or(p.Updates, updates)
	return p
}

// Plan implements [Schedule].
func (p PerEpoch) Plan(peak float64, updates int) Rate {
	if p.Schedule == nil {
		return Constant{}.Plan(peak, updates)
	}
	return p.each(p.Schedule.Plan(peak, p.epochs(updates)))
}

// PlanMomentum implements [MomentumSchedule]. It is not nil if Schedule changes the momentum.
func (p PerEpoch) PlanMomentum(updates int) Rate {
	rate := PlanMomentum(p.Schedule, p.epochs(updates))
	if rate == nil {
		return nil
	}
	return p.each(rate)
}

func (p PerEpoch) each(rate Rate) Rate {
	return func(update int) float64 { return rate(update / max(1, p.Updates)) }
}

// epochs returns the number of epochs in a run; the last one may be incomplete.
func (p PerEpoch) epochs(updates int) int {
	per := max(1, p.Updates)
	return (updates + per - 1) / per
}

// Validate implements [Validator].
func (p PerEpoch) Validate() error {
	c := checks{schedule: "PerEpoch"}
	c.that(p.Schedule != nil, "Schedule", "nil", "a schedule")
	c.that(p.Updates >= 0, "Updates", p.Updates, "the number of updates of an epoch, or 0 for those of the trainer's")
	if v, ok := p.Schedule.(Validator); ok && c.err == nil {
		return v.Validate()
	}
	return c.err
}

// ValidatePlan implements [PlanValidator].
func (p PerEpoch) ValidatePlan(peak float64, updates int) error {
	c := checks{schedule: "PerEpoch"}
	c.that(p.Updates != 0, "Updates", 0, "the number of updates of an epoch: there is no trainer that could tell it, "+
		"or "+
		"its epochs do not all have as many")
	if v, ok := p.Schedule.(PlanValidator); ok && c.err == nil {
		return v.ValidatePlan(peak, p.epochs(updates))
	}
	return c.err
}
