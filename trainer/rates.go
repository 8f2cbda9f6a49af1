package trainer

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// rates are the learning rates of a run, either planned as a function of the number of the update
// or set by a controller that follows the evaluations, and the momenta if the schedule changes
// those.
type rates struct {
	peak       float64 // from the options or, where the semantics say so, from the checkpoint
	planned    lr.Rate
	momentum   lr.Rate         // nil: the schedule does not change it
	controller lr.Controller   // nil: the rate is planned
	state      json.RawMessage // of the controller, from the checkpoint

	moves   int      // how often the rate has changed
	applied bool     // the last update was not skipped
	first   *float64 // overrides the rate of the first update after a resume
	last    *float64 // rate of the last update
	newest  float64  // storage for last, unless that came from a checkpoint
}

func (r *rates) current() float64 { return r.planned(r.moves) }

func (r *rates) next() float64 {
	if r.first != nil {
		return *r.first
	}
	return r.current()
}

// plan plans the rates, and the momenta, of a run in which they change total times.
func (r *rates) plan(schedule lr.Schedule, total int) error {
	if err := lr.Validate(schedule, r.peak, total); err != nil {
		return &refusedOptions{fmt.Errorf("trainer: Options.Schedule: %w", err)}
	}
	r.planned, r.momentum = schedule.Plan(r.peak, total), lr.PlanMomentum(schedule, total)
	return nil
}

// follow starts a controller, or continues it where the checkpoint left it.
func (r *rates) follow(adaptive lr.Adaptive, resumedFrom string) (err error) {
	if r.controller, err = adaptive.Start(r.peak); err != nil {
		return fmt.Errorf("trainer: Options.Adaptive: %w", err)
	}
	r.planned = func(int) float64 { return r.controller.Rate() }
	if r.state == nil {
		return nil
	}
	if err := r.controller.LoadState(r.state); err != nil {
		return cannotResume(resumedFrom, "Options.Adaptive: %w", err)
	}
	return nil
}

// observe passes the result of an evaluation to the controller, if there is one.
func (r *rates) observe(m bestMetric, row Logs) error {
	if r.controller == nil {
		return nil
	}
	m.explicit = true // a controller needs the metric
	v, _, err := m.value(row)
	if err != nil {
		return err
	}
	r.controller.Observe(v)
	return nil
}

func (r *rates) save(l *loopState) (err error) {
	l.ScheduleStep, l.NextRate, l.Applied = r.moves, r.current(), r.applied
	if r.last != nil {
		l.LastRate = new(*r.last) // a copy, since another goroutine may write the state
	}
	if r.controller != nil {
		if l.Controller, err = r.controller.State(); err != nil {
			return fmt.Errorf("state of Options.Adaptive: %w", err)
		}
	}
	return nil
}

func (r *rates) restore(l loopState, rules semantics.Rules) {
	r.moves, r.state, r.last, r.applied = l.ScheduleStep, l.Controller, l.LastRate, l.Applied
	if rules.OptimizerFromCheckpoint {
		r.first, r.peak = &l.NextRate, l.PeakRate
	}
}

func (r *runner) planRates() error {
	if r.o.Adaptive == nil {
		return r.rates.plan(r.plannedSchedule())
	}
	from := r.run.Info.ResumedFrom
	if from != "" && r.rates.state == nil {
		r.warn("%s was made with another schedule, so the schedule of Options.Adaptive starts over", from)
	}
	return r.rates.follow(r.o.Adaptive, from)
}

// plannedSchedule returns Options.Schedule, adapted to the length of an epoch, and how often the
// rate is planned to change in the run.
func (r *runner) plannedSchedule() (schedule lr.Schedule, total int) {
	p, every := r.loop.plan, r.scheduleEvery()
	return lr.ForEpochs(r.o.Schedule, p.movesPerEpoch(every, r.o.Semantics)), p.scheduleSteps(every, r.o.Semantics)
}

// scheduleEvery returns the number of steps after which the rate changes.
func (r *runner) scheduleEvery() int {
	if r.o.ScheduleSteps > 0 {
		return r.o.ScheduleSteps
	}
	return max(1, min(r.loop.plan.stepsPerEpoch, r.loop.plan.maxSteps))
}

// checkMomentum refuses a schedule that changes the momentum if the step has none.
func (r *runner) checkMomentum() error {
	if r.step.About().SetsMomentum || lr.PlanMomentum(r.plannedSchedule()) == nil {
		return nil
	}
	return cannot(r.step.given, fmt.Sprintf("Options.Schedule %T moves the momentum", r.o.Schedule), "do so",
		"SetsMomentum",
		"implement SetMomentum, of its optimizer too, and set it, or let the schedule leave the momentum alone")
}

// skipsUnseen reports whether the rate changes even after a skipped update.
func (r *runner) skipsUnseen() bool {
	rules := r.o.Semantics
	return rules.ScheduleOnSkip || rules.FusedHidesSkips && r.fused // a skipped update then looks like one that was made
}

// moveRate advances the schedule, unless the last update was skipped. A rate that follows the
// evaluations changes with those.
func (r *runner) moveRate() error {
	if r.rates.controller != nil && r.o.Semantics.CountsBatches() || !r.rates.applied && !r.skipsUnseen() {
		return nil
	}
	r.rates.moves++
	return fire(r.session, "AfterSchedule", func(h afterScheduleHook, run *Run) error {
		return h.AfterSchedule(run, r.rates.current())
	})
}

// scheduleText names a schedule and its nonzero settings: "Cosine, Warmup 0.05".
func scheduleText(o Options) string {
	if o.Adaptive != nil {
		return settingsText(o.Adaptive)
	}
	return settingsText(o.Schedule)
}
