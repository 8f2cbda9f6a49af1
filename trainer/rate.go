package trainer

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// The learning rate of a run: a function of the number of the update, or a controller that follows
// the evaluations.

// schedule plans the rates of the run, and the momenta if the schedule moves them.
func (f *fit[S, B]) schedule() error {
	if f.o.Adaptive != nil {
		return f.startAdaptive()
	}
	total := f.loop.plan.scheduleSteps(f.scheduleEvery(), f.o.Semantics)
	if err := lr.Validate(f.o.Schedule, f.peakRate, total); err != nil {
		return fmt.Errorf("trainer: Options.Schedule: %w", err)
	}
	f.rate = f.o.Schedule.Plan(f.peakRate, total)
	if m, ok := f.o.Schedule.(lr.MomentumSchedule); ok {
		f.momentum = m.PlanMomentum(total)
	}
	return nil
}

// checkMomentum refuses a schedule that moves the momentum of a step that has none.
func (f *fit[S, B]) checkMomentum() error {
	m, ok := f.o.Schedule.(lr.MomentumSchedule)
	if !ok || f.t.step.About().SetsMomentum {
		return nil
	}
	if m.PlanMomentum(f.loop.plan.scheduleSteps(f.scheduleEvery(), f.o.Semantics)) == nil {
		return nil
	}
	return cannot(f.t.step, fmt.Sprintf("Options.Schedule %T moves the momentum", f.o.Schedule), "do so",
		"SetsMomentum", "implement SetMomentum, of its optimizer too, and set it, or let the schedule leave the "+
			"momentum "+
			"alone")
}

// startAdaptive starts the controller, or lets it go on where the checkpoint left it.
func (f *fit[S, B]) startAdaptive() (err error) {
	if f.controller, err = f.o.Adaptive.Start(f.peakRate); err != nil {
		return fmt.Errorf("trainer: Options.Adaptive: %w", err)
	}
	f.rate = func(int) float64 { return f.controller.Rate() }
	switch {
	case f.run.Info.ResumedFrom == "":
	case f.controllerState == nil:
		f.warn("%s was made with another schedule, so that of Options.Adaptive starts anew", f.run.Info.ResumedFrom)
	default:
		if err := f.controller.LoadState(f.controllerState); err != nil {
			return fmt.Errorf("trainer: cannot resume from %s: Options.Adaptive: %w", f.run.Info.ResumedFrom, err)
		}
	}
	return nil
}

// observe tells an adaptive schedule the outcome of an evaluation.
func (f *fit[S, B]) observe(row Logs) error {
	if f.controller == nil {
		return nil
	}
	j := f.judge
	j.explicit = true // it cannot do without
	v, _, err := j.value(row)
	if err != nil {
		return err
	}
	f.controller.Observe(v)
	return nil
}

// setMomentum tells the step the momentum of the update at hand.
func (f *fit[S, B]) setMomentum() error {
	if f.momentum == nil {
		return nil
	}
	return f.stepError("set the momentum", f.t.step.SetMomentum(f.momentum(f.scheduleStep)))
}

// scheduleText names a schedule and those of its settings that are set: "Cosine, Warmup 0.05".
func scheduleText(o Options) string {
	var s any = o.Schedule
	if o.Adaptive != nil {
		s = o.Adaptive
	}
	v := reflect.Indirect(reflect.ValueOf(s))
	var b strings.Builder
	b.WriteString(v.Type().Name())
	if v.Kind() != reflect.Struct {
		return b.String()
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			fmt.Fprintf(&b, ", %s %v", f.Name, reflect.Indirect(v.Field(i)))
		}
	}
	return b.String()
}
