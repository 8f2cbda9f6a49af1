package pytorchaccelerated

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// schedule moves the rate of the optimizer: trainer.scheduler.
type schedule struct {
	plan        lr.Schedule
	optimizer   *accelerate.Optimizer
	rate        lr.Rate
	momentum    lr.Rate // nil: the momentum stays
	setMomentum func(float64) error
	moves       int
	limit       int     // moves behind which the schedule fails in Python; 0: it is not to fail
	timm        int     // what timm's step_update was told last
	perEpoch    lr.Rate // of a timm schedule that counts epochs; nil: it counts updates
}

// makeSchedule plans the schedule of the run, from the rate that the optimizer was made with.
func (t *Trainer[S, B]) makeSchedule() error {
	create := t.options.Methods.CreateScheduler
	if t.sets.createScheduler == nil && create == nil {
		return nil
	}
	p := Placeholders{
		NumEpochs: t.config.NumEpochs, NumUpdateStepsPerEpoch: t.config.NumUpdateStepsPerEpoch, PerProcessNumUpdateStepsPerEpoch: t.config.NumLocalUpdateStepsPerEpoch,
		TrainDataloaderLen: t.plannedBatches(t.train.Len()), rules: t.rules,
	}
	if t.eval != nil {
		p.EvalDataloaderLen = t.plannedBatches(t.eval.Len())
	}
	var plan lr.Schedule
	var err error
	if create != nil {
		plan, err = create(t, p)
	} else {
		plan, err = t.CreateScheduler(p)
	}
	if err != nil {
		return fmt.Errorf("pytorchaccelerated: CreateSchedulerFn: %w", err)
	}
	if plan == nil {
		return nil
	}
	peak := t.builder.LearningRate()
	from := peak
	if t.rules.ScheduleFromLastRate {
		from = t.prepared.Rate()
	}
	if t.schedule, err = newSchedule(plan, t.prepared, from, peak, p.NumEpochs*p.NumUpdateStepsPerEpoch); err != nil {
		return fmt.Errorf("pytorchaccelerated: %w", err)
	}
	if t.rules.ScheduleQuirks {
		t.schedule.limit = lr.StepLimit(plan, p.NumEpochs*p.NumUpdateStepsPerEpoch)
	}
	t.accelerator.RegisterForCheckpointing(t.schedule)
	return nil
}

func newSchedule(plan lr.Schedule, o *accelerate.Optimizer, from, peak float64, updates int) (*schedule, error) {
	if err := lr.Validate(plan, peak, updates); err != nil {
		return nil, err
	}
	s := &schedule{plan: plan, optimizer: o, rate: lr.PlanFrom(plan, from, peak, updates)}
	if p, ok := plan.(lr.PerEpoch); ok {
		s.perEpoch = p.Schedule.Plan(peak, ceilDiv(updates, p.Updates))
	}
	if m, ok := plan.(lr.MomentumSchedule); ok {
		if s.momentum = m.PlanMomentum(updates); s.momentum != nil {
			setter, ok := o.Optimizer().(optim.MomentumSetter)
			if !ok {
				return nil, fmt.Errorf("%T moves the momentum too, which an optimizer of type %T cannot set; leave the momentum alone (FixedMomentum) or take another optimizer", plan, o.Optimizer())
			}
			s.setMomentum = setter.SetMomentum
		}
	}
	return s, s.apply(0)
}

func (s *schedule) apply(update int) error {
	s.optimizer.SetRate(s.rate(update))
	return s.applyMomentum(update)
}

func (s *schedule) applyMomentum(update int) error {
	if s.momentum == nil {
		return nil
	}
	return s.setMomentum(s.momentum(update))
}

// step moves on by one update.
func (s *schedule) step() error {
	if s.limit > 0 && s.moves >= s.limit {
		return fmt.Errorf("pytorchaccelerated: the schedule %T ends after %d updates and the run goes on; plan it for the whole run", s.plan, s.limit)
	}
	s.moves++
	return s.apply(s.moves)
}

// stepTimmUpdate is step_update of a timm scheduler after an update.
func (s *schedule) stepTimmUpdate() error {
	s.moves++
	s.timm++
	if s.perEpoch != nil {
		return nil
	}
	return s.apply(s.timm)
}

// stepTimmEpoch is step of a timm scheduler at the end of an epoch.
func (s *schedule) stepTimmEpoch(epoch int) error {
	if s.perEpoch != nil {
		s.optimizer.SetRate(s.perEpoch(epoch))
	}
	return nil
}

type scheduleState struct {
	Moves int `json:"moves"`
	Timm  int `json:"timm,omitempty"`
}

// MarshalState implements accelerate.Stateful.
func (s *schedule) MarshalState() ([]byte, error) {
	return json.Marshal(scheduleState{s.moves, s.timm})
}

// UnmarshalState implements accelerate.Stateful. The rate is part of the optimizer's state.
func (s *schedule) UnmarshalState(text []byte) error {
	var state scheduleState
	if err := json.Unmarshal(text, &state); err != nil {
		return err
	}
	return s.take(state)
}

func (s *schedule) take(state scheduleState) error {
	if state.Moves < 0 || state.Timm < 0 {
		return fmt.Errorf("the schedule has moved %d times", state.Moves)
	}
	s.moves, s.timm = state.Moves, state.Timm
	return s.applyMomentum(s.moves)
}
