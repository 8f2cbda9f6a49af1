package accelerate

import (
	"fmt"

	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// Schedule changes the learning rate of a prepared optimizer: AcceleratedScheduler.
type Schedule struct {
	accelerator *Accelerator
	optimizer   *Optimizer
	schedule    lr.Schedule
	updates     int     // number of updates that it is planned for
	peak        float64 // rate that it is planned from (base_lrs); LoadState replaces it with that of the state
	rate        lr.Rate
	momentum    lr.Rate // nil: the momentum does not change
	setter      optim.MomentumSetter
	limit       int // maximum number of updates; 0: no limit
	moves       int // how often the rate has changed
}

// PrepareSchedule plans a schedule for a run of the given number of moves, starting from the
// optimizer's learning rate, and sets the rate of the first update: accelerator.prepare(scheduler).
// A prepared schedule moves once per update and process. Pass the number of updates times
// NumProcesses or, with Options.SplitBatches, the number of updates. Schedules that also change the
// momentum, such as lr.OneCycleLR, need an optimizer that has one.
func (a *Accelerator) PrepareSchedule(o *Optimizer, s lr.Schedule, updates int) (*Schedule, error) {
	if err := lr.Validate(s, o.peak, updates); err != nil {
		return nil, fmt.Errorf("accelerate: PrepareSchedule: %w", err)
	}
	p := &Schedule{accelerator: a, optimizer: o, schedule: s, updates: updates, peak: o.peak,
		rate: s.Plan(o.peak, updates), momentum: lr.PlanMomentum(s, updates)}
	if cycle, ok := s.(lr.OneCycleLR); ok {
		if p.limit = cycle.TotalSteps; p.limit == 0 {
			p.limit = updates
		}
	}
	var ok bool
	if p.setter, ok = o.optimizer.(optim.MomentumSetter); p.momentum != nil && !ok {
		return nil, fmt.Errorf("accelerate: PrepareSchedule: %T moves the momentum too, which an optimizer of type %T "+
			"cannot set; leave the momentum alone (FixedMomentum) or take another optimizer", s, o.optimizer)
	}
	a.schedules = append(a.schedules, p)
	return p, p.apply()
}

// Step moves the schedule if the current batch ended in an update. It does not move between
// updates, or if loss scaling skipped the update. A schedule of fixed length (lr.OneCycleLR) stops
// at its end. The schedule moves as many times as there are processes, since each has seen a batch
// of the full size; with Options.SplitBatches, once. With Options.FreeSchedule it always moves, and
// once.
func (s *Schedule) Step() error {
	a := s.accelerator
	switch {
	case a.options.FreeSchedule:
		s.moves++
		return s.apply()
	case !a.sync, s.optimizer.skipped:
		return nil
	}
	times := a.NumProcesses()
	if a.options.SplitBatches {
		times = 1
	}
	for range times {
		if s.limit == 0 || s.moves < s.limit {
			s.moves++
		}
	}
	return s.apply()
}

func (s *Schedule) apply() error {
	s.optimizer.rate = s.rate(s.moves)
	return s.applyMomentum()
}

func (s *Schedule) applyMomentum() error {
	if s.momentum == nil {
		return nil
	}
	return s.setter.SetMomentum(s.momentum(s.moves))
}

// Moves returns how often the schedule has moved.
func (s *Schedule) Moves() int { return s.moves }
