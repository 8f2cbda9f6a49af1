package lr

import (
	"fmt"
	"slices"
	"sort"
)

// SequentialLR runs one schedule after another: torch.optim.lr_scheduler.SequentialLR. At each
// milestone the next schedule starts at its update 0, from the peak rate.
//
// As in PyTorch, a SequentialLR that is the first of the Schedules counts its own milestones one
// update early, and a [ChainedScheduler] there takes one step too many. A single flat list of
// schedules has neither quirk.
type SequentialLR struct {
	Schedules  []Schedule // at least one
	Milestones []int      // the update at which each schedule but the first starts, in increasing order
}

var (
	_ MomentumSchedule = SequentialLR{}
	_ EpochSchedule    = SequentialLR{}
)

// ForEpochs implements [EpochSchedule].
func (s SequentialLR) ForEpochs(updates int) Schedule {
	s.Schedules = partsForEpochs(s.Schedules, updates)
	return s
}

// Plan implements [Schedule].
func (s SequentialLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(s, peak, updates)
	return rate
}

// PlanMomentum implements [MomentumSchedule]. It is not nil if one of the Schedules changes the
// momentum.
func (s SequentialLR) PlanMomentum(updates int) Rate {
	return momentumOf(s, s.Schedules, updates)
}

func (s SequentialLR) parts() []Schedule     { return s.Schedules }
func (s ChainedScheduler) parts() []Schedule { return s.Schedules }

func (s SequentialLR) attach(g *group, updates int) stepper {
	q := &sequence{milestones: s.Milestones, parts: attachAll(s.Schedules, g, updates)}
	g.lr = *g.initialLR
	q.undo()
	q.parts[0].initialStep()
	return q
}

// Validate implements [Validator].
func (s SequentialLR) Validate() error {
	c := checks{schedule: "SequentialLR"}
	c.that(len(s.Schedules) > 0, "Schedules", "empty", "at least one schedule")
	c.that(len(s.Milestones) == len(s.Schedules)-1, "Milestones", s.Milestones,
		fmt.Sprintf("one less than there are schedules, which are %d", len(s.Schedules)))
	previous := 0
	for _, m := range s.Milestones {
		c.that(m > previous, "Milestones", s.Milestones,
			"positive numbers of updates, each greater than the one before")
		previous = m
	}
	for i, part := range s.Schedules {
		if _, composed := part.(interface{ parts() []Schedule }); composed {
			c.that(i == 0, fmt.Sprintf("Schedules[%d]", i), fmt.Sprintf("a %T", part),
				"a schedule that is not made of others: PyTorch cannot start those at a milestone")
		}
	}
	return firstError(c.err, validateParts("SequentialLR", s.Schedules))
}

// ValidatePlan implements [PlanValidator].
func (s SequentialLR) ValidatePlan(peak float64, updates int) error {
	return validatePlans("SequentialLR", s.Schedules, peak, updates)
}

// ChainedScheduler applies several schedules to one rate at the same time:
// torch.optim.lr_scheduler.ChainedScheduler. Schedules that multiply the previous rate (StepLR,
// ExponentialLR, ...) are combined by multiplication. A schedule that is a function of the update
// overwrites what those before it did.
type ChainedScheduler struct {
	Schedules []Schedule // at least one
}

var (
	_ MomentumSchedule = ChainedScheduler{}
	_ EpochSchedule    = ChainedScheduler{}
)

// ForEpochs implements [EpochSchedule].
func (s ChainedScheduler) ForEpochs(updates int) Schedule {
	s.Schedules = partsForEpochs(s.Schedules, updates)
	return s
}

// Plan implements [Schedule].
func (s ChainedScheduler) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(s, peak, updates)
	return rate
}

// PlanMomentum implements [MomentumSchedule]. It is not nil if one of the Schedules changes the
// momentum.
func (s ChainedScheduler) PlanMomentum(updates int) Rate {
	return momentumOf(s, s.Schedules, updates)
}

func (s ChainedScheduler) attach(g *group, updates int) stepper {
	return &chain{attachAll(s.Schedules, g, updates)}
}

// Validate implements [Validator].
func (s ChainedScheduler) Validate() error {
	c := checks{schedule: "ChainedScheduler"}
	c.that(len(s.Schedules) > 0, "Schedules", "empty", "at least one schedule")
	return firstError(c.err, validateParts("ChainedScheduler", s.Schedules))
}

// ValidatePlan implements [PlanValidator].
func (s ChainedScheduler) ValidatePlan(peak float64, updates int) error {
	return validatePlans("ChainedScheduler", s.Schedules, peak, updates)
}

// chain is an attached ChainedScheduler.
type chain struct{ parts []stepper }

func (c *chain) step() {
	for _, p := range c.parts {
		p.step()
	}
}

func (c *chain) undo() {
	for _, p := range c.parts {
		p.undo()
	}
}

func (c *chain) initialStep() { c.step() }
func (c *chain) restart()     { c.step() } // Validate rejects schedules that would call it

// sequence is an attached SequentialLR.
type sequence struct {
	milestones []int
	parts      []stepper
	epoch      int
}

func (q *sequence) step() {
	q.epoch++
	i := sort.SearchInts(q.milestones, q.epoch+1)
	i = min(i, len(q.parts)-1)
	if i > 0 && q.milestones[i-1] == q.epoch {
		q.parts[i].restart()
	} else {
		q.parts[i].step()
	}
}

func (q *sequence) undo()        { (&chain{q.parts}).undo() }
func (q *sequence) initialStep() { q.step() }
func (q *sequence) restart()     { q.step() } // Validate rejects schedules that would call it

// attachAll attaches schedules in order, as a program constructs its schedulers. An empty list or a
// nil schedule keeps the rate constant; Validate reports them.
func attachAll(schedules []Schedule, g *group, updates int) []stepper {
	if len(schedules) == 0 {
		schedules = []Schedule{Constant{}}
	}
	var parts []stepper
	for _, s := range schedules {
		if s == nil {
			s = Constant{}
		}
		parts = append(parts, attach(s, g, updates))
	}
	return parts
}

func partsForEpochs(parts []Schedule, updates int) []Schedule {
	parts = slices.Clone(parts)
	for i, s := range parts {
		parts[i] = ForEpochs(s, updates)
	}
	return parts
}

func momentumOf(s attachable, parts []Schedule, updates int) Rate {
	if !slices.ContainsFunc(parts, cycles) {
		return nil
	}
	_, momentum := planStepper(s, 1, updates)
	return momentum
}

func validateParts(schedule string, parts []Schedule) error {
	for i, part := range parts {
		if part == nil {
			return &SettingError{schedule, fmt.Sprintf("Schedules[%d]", i), "nil", "a schedule"}
		}
		if v, ok := part.(Validator); ok {
			if err := v.Validate(); err != nil {
				return fmt.Errorf("%s.Schedules[%d]: %w", schedule, i, err)
			}
		}
	}
	return nil
}

func validatePlans(schedule string, parts []Schedule, peak float64, updates int) error {
	for i, part := range parts {
		if v, ok := part.(PlanValidator); ok {
			if err := v.ValidatePlan(peak, updates); err != nil {
				return fmt.Errorf("%s.Schedules[%d]: %w", schedule, i, err)
			}
		}
	}
	return nil
}
