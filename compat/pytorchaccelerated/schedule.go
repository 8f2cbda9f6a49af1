package pytorchaccelerated

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// schedule adjusts the learning rate of the optimizer: trainer.scheduler.
type schedule struct {
	plan       lr.Schedule
	optimizer  *accelerate.Optimizer
	rate       lr.Rate
	momentum   loops.Momentum
	moves      int
	limit      int     // number of steps after which the schedule fails in Python; negative: it does not fail
	registered bool    // a state has been saved or loaded
	forgets    bool    // its count is not restored: Rules.ScheduleQuirks
	timm       int     // the last argument of timm's step_update
	perEpoch   lr.Rate // for a timm schedule that counts epochs; nil: it counts updates
}

// makeSchedule creates the schedule of the run, starting from the rate that the optimizer was
// created with.
func (t *Trainer[S, B]) makeSchedule() error {
	p := Placeholders{
		NumEpochs: t.config.NumEpochs, NumUpdateStepsPerEpoch: t.config.NumUpdateStepsPerEpoch,
		PerProcessNumUpdateStepsPerEpoch: t.config.NumLocalUpdateStepsPerEpoch,
		TrainDataloaderLen:               t.plannedBatches(t.train.Len()), rules: t.rules,
	}
	if t.eval != nil {
		p.EvalDataloaderLen = t.plannedBatches(t.eval.Len())
	}
	plan, err := t.methods.CreateScheduler(t, p)
	if err != nil {
		return fmt.Errorf("pytorchaccelerated: CreateSchedulerFn: %w", err)
	}
	if plan == nil {
		if s := t.schedule; s != nil { // with Rules.KeepFromLastRun
			s.optimizer, s.registered = t.prepared, false
			t.accelerator.RegisterForCheckpointing(s)
		}
		return nil
	}
	from := t.builder.LearningRate()
	initial := *cmp.Or(t.initialRate, &from)
	if t.rules.ScheduleFromLastRate {
		from = t.prepared.Rate()
		t.initialRate = new(initialRate(plan, initial, t.initialRate != nil))
	}
	updates := p.NumEpochs * p.NumUpdateStepsPerEpoch
	if err := lr.Validate(plan, initial, updates); err != nil {
		return prefixed(err)
	}
	s := &schedule{plan: plan, optimizer: t.prepared, rate: lr.PlanFrom(plan, from, initial, updates), limit: -1}
	if s.momentum, err = loops.PlanMomentum(plan, t.optimizer, updates); err == nil {
		err = s.apply(0)
	}
	if err != nil {
		return prefixed(err)
	}
	if p, ok := plan.(lr.PerEpoch); ok {
		s.perEpoch = p.Schedule.Plan(initial, ceilDiv(updates, p.Updates))
	}
	if t.rules.ScheduleQuirks {
		s.limit = lr.StepLimit(plan, updates)
		_, s.forgets = plan.(lr.PytorchAcceleratedWSD)
	}
	t.schedule = s
	t.accelerator.RegisterForCheckpointing(s)
	return nil
}

// initialRate returns the initial_lr that a scheduler leaves in the parameter groups for later
// ones: OneCycleLR always sets its own, CyclicLR only if there is none.
func initialRate(plan lr.Schedule, rate float64, known bool) float64 {
	switch p := plan.(type) {
	case lr.OneCycleLR:
		return p.Plan(rate, 1)(0)
	case lr.CyclicLR:
		if !known {
			return p.BaseLR
		}
	}
	return rate
}

func (s *schedule) apply(update int) error {
	s.optimizer.SetRate(s.rate(update))
	return s.momentum.Set(update)
}

// step moves the schedule on by one update.
func (s *schedule) step() error {
	if u, ok := s.plan.(unmeasured); ok {
		return fmt.Errorf("pytorchaccelerated: %T follows a measured value, and the trainer tells it none: take a "+
			"schedule of the update's number", u.Adaptive)
	}
	if err := s.checkEnd(s.moves + 1); err != nil {
		return err
	}
	s.moves++
	return s.apply(s.moves)
}

// checkEnd refuses a step at which the schedule fails in Python.
func (s *schedule) checkEnd(move int) error {
	if s.limit >= 0 && move > s.limit {
		return fmt.Errorf("pytorchaccelerated: the schedule %T ends after %d updates and the run continues; plan it "+
			"for the whole run", s.plan, s.limit)
	}
	return nil
}

// stepTimmUpdate corresponds to a timm scheduler's step_update after an update.
func (s *schedule) stepTimmUpdate() error {
	if hasNoStepUpdate(s.plan) {
		return fmt.Errorf("pytorchaccelerated: %T has no step_update, which TrainerWithTimmScheduler calls: take a "+
			"schedule of timm, or leave Options.Timm", s.plan)
	}
	s.timm++
	if accelerated(s.plan) { // its own count stays the same; these schedules start one update later
		if err := s.checkEnd(s.timm + 1); err != nil {
			return err
		}
		return s.apply(s.timm + 1)
	}
	s.moves++
	if s.perEpoch != nil {
		return nil
	}
	return s.apply(s.timm)
}

// stepTimmEpoch corresponds to a timm scheduler's step at the end of an epoch.
func (s *schedule) stepTimmEpoch(epoch int) error {
	if accelerated(s.plan) {
		return fmt.Errorf("pytorchaccelerated: the step of %T takes no epoch, which TrainerWithTimmScheduler gives "+
			"it: take a schedule of timm, or leave Options.Timm", s.plan)
	}
	if s.perEpoch != nil {
		s.optimizer.SetRate(s.perEpoch(epoch))
	}
	return nil
}

// accelerated reports whether a schedule is one of pytorch-accelerated's own.
func accelerated(plan lr.Schedule) bool {
	_, cosine := plan.(lr.PytorchAcceleratedCosine)
	_, wsd := plan.(lr.PytorchAcceleratedWSD)
	return cosine || wsd
}

// hasNoStepUpdate reports whether a schedule is one of PyTorch's, which have no step_update, unlike
// timm's.
func hasNoStepUpdate(plan lr.Schedule) bool {
	switch plan.(type) {
	case lr.StepLR, lr.MultiStepLR, lr.ConstantLR, lr.LinearLR, lr.ExponentialLR, lr.PolynomialLR, lr.CyclicLR,
		lr.CosineAnnealingLR, lr.CosineAnnealingWarmRestarts, lr.OneCycleLR, lr.LambdaLR, lr.MultiplicativeLR,
		lr.SequentialLR, lr.ChainedScheduler, unmeasured:
		return true
	}
	return false
}

type scheduleState struct {
	Moves int `json:"moves"`
	Timm  int `json:"timm,omitempty"`
}

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
	if s.forgets {
		return nil
	}
	s.moves, s.timm = state.Moves, state.Timm
	return s.momentum.Set(s.moves)
}

// unmeasured is a schedule that depends on a measured value, which the trainer does not provide.
type unmeasured struct{ lr.Adaptive }

func (unmeasured) Plan(peak float64, _ int) lr.Rate { return func(int) float64 { return peak } }
