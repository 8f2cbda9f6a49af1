package lr

// PerEpoch lets another schedule count epochs instead of updates, as schedulers do that are stepped
// once an epoch: the updates of an epoch all have one rate.
//
//	lr.PerEpoch{Schedule: lr.StepLR{StepSize: 30}, Updates: 500} // a fall every 30 epochs of 500 updates
type PerEpoch struct {
	Schedule Schedule // counts epochs; required
	Updates  int      // updates of an epoch; required
}

var _ MomentumSchedule = PerEpoch{}

// Plan implements [Schedule].
func (p PerEpoch) Plan(peak float64, updates int) Rate {
	if p.Schedule == nil {
		return Constant{}.Plan(peak, updates)
	}
	return p.each(p.Schedule.Plan(peak, p.epochs(updates)))
}

// PlanMomentum implements [MomentumSchedule]: not nil if Schedule moves the momentum.
func (p PerEpoch) PlanMomentum(updates int) Rate {
	m, ok := p.Schedule.(MomentumSchedule)
	if !ok {
		return nil
	}
	rate := m.PlanMomentum(p.epochs(updates))
	if rate == nil {
		return nil
	}
	return p.each(rate)
}

func (p PerEpoch) each(rate Rate) Rate {
	return func(update int) float64 { return rate(update / max(1, p.Updates)) }
}

// epochs is the number of epochs in a run; the last may be a short one.
func (p PerEpoch) epochs(updates int) int {
	per := max(1, p.Updates)
	return (updates + per - 1) / per
}

// Validate implements [Validator].
func (p PerEpoch) Validate() error {
	c := checks{schedule: "PerEpoch"}
	c.that(p.Schedule != nil, "Schedule", "nil", "a schedule")
	c.that(p.Updates > 0, "Updates", p.Updates, "the positive number of updates of an epoch")
	if v, ok := p.Schedule.(Validator); ok && c.err == nil {
		return v.Validate()
	}
	return c.err
}

// ValidatePlan implements [PlanValidator].
func (p PerEpoch) ValidatePlan(peak float64, updates int) error {
	if v, ok := p.Schedule.(PlanValidator); ok {
		return v.ValidatePlan(peak, p.epochs(updates))
	}
	return nil
}
