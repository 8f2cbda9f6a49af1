package pytorchaccelerated

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// RunTraining is the outer loop: _run_training.
func (t *Trainer[S, B]) RunTraining() error {
	m := &t.options.Methods
	if err := t.own(m.TrainingRunStart, t.TrainingRunStart); err != nil {
		return err
	}
	if err := CallEvent(t.Run, "OnTrainingRunStart",
		func(h TrainingRunStartHook) error { return h.OnTrainingRunStart(t.Run) }); err != nil {
		return err
	}
	for session := 1; t.moreEpochs(session); session++ {
		reached, err := t.runEpoch()
		var stop *StopTrainingError
		switch {
		case errors.As(err, &stop):
			t.Print(stop)
			err = CallEvent(t.Run, "OnStopTrainingError", func(h StopTrainingErrorHook) error {
				return h.OnStopTrainingError(t.Run, stop)
			})
			reached = true
		case err == nil && reached:
			t.Print(fmt.Sprintf("Reached max number of training steps %d in epoch %d", t.config.MaxNumTrainSteps,
				session))
		}
		if err != nil {
			return err
		}
		if reached {
			break
		}
	}
	if err := t.own(m.TrainingRunEnd, t.TrainingRunEnd); err != nil {
		return err
	}
	return CallEvent(t.Run, "OnTrainingRunEnd", func(h TrainingRunEndHook) error { return h.OnTrainingRunEnd(t.Run) })
}

func (t *Trainer[S, B]) moreEpochs(session int) bool {
	if t.rules.EpochsPerSession || !t.place.resumed {
		return session <= t.config.NumEpochs
	}
	return t.place.Epoch <= t.config.NumEpochs && !t.limitReached(0)
}

// runEpoch is an epoch of training and one of evaluation.
func (t *Trainer[S, B]) runEpoch() (reached bool, err error) {
	m := &t.options.Methods
	if m.RunTrainEpoch != nil {
		reached, err = m.RunTrainEpoch(t)
	} else {
		reached, err = t.RunTrainEpoch()
	}
	if err != nil {
		return false, err
	}
	if t.sets.eval != nil {
		// a state that is saved in the evaluation begins before it
		t.place.Generator = torch.DefaultGenerator(torch.CPU).State()
		if err := t.evalEpoch(EvalEpoch{}); err != nil {
			return false, err
		}
		t.place.Generator = nil
	}
	complete := t.place.Batches >= limited(t.train, t.limitTrain)
	t.place.EpochDone = complete
	if err := t.own(m.TrainingRunEpochEnd, t.TrainingRunEpochEnd); err != nil {
		return false, err
	}
	if err := CallEvent(t.Run, "OnTrainingRunEpochEnd",
		func(h TrainingRunEpochEndHook) error { return h.OnTrainingRunEpochEnd(t.Run) }); err != nil {
		return false, err
	}
	t.history.IncrementEpoch()
	if complete {
		t.place.Epoch, t.place.Batches, t.place.EpochDone = t.history.CurrentEpoch(), 0, false
	}
	return reached, nil
}

// RunTrainEpoch is the inner loop: _run_train_epoch. It reports whether MaxNumTrainSteps has been
// reached.
func (t *Trainer[S, B]) RunTrainEpoch() (reachedMaxSteps bool, err error) {
	m := &t.options.Methods
	if err := t.own(m.TrainEpochStart, t.TrainEpochStart); err != nil {
		return false, err
	}
	skip := t.skip
	t.skip = 0
	if skip == 0 {
		t.tracker = new(LossTracker)
	}
	t.place.Epoch, t.place.Batches, t.place.training = t.history.CurrentEpoch(), skip, true
	defer func() { t.place.training = false }()
	if err := CallEvent(t.Run, "OnTrainEpochStart",
		func(h TrainEpochStartHook) error { return h.OnTrainEpochStart(t.Run) }); err != nil {
		return false, err
	}
	if reachedMaxSteps, err = t.trainBatches(skip); err != nil {
		return false, err
	}
	t.place.training = false
	if err := t.own(m.TrainEpochEnd, t.TrainEpochEnd); err != nil {
		return false, err
	}
	t.recordLoss("train_loss_epoch")
	return reachedMaxSteps, CallEvent(t.Run, "OnTrainEpochEnd", func(h TrainEpochEndHook) error {
		return h.OnTrainEpochEnd(t.Run)
	})
}

// trainBatches trains on the batches of an epoch behind the first skip ones.
func (t *Trainer[S, B]) trainBatches(skip int) (reachedMaxSteps bool, err error) {
	n, step := t.trainLen(), skip
	if step >= n && (skip > 0 || t.limitTrain == 0) { // a pass without batches draws its random numbers too
		return false, nil
	}
	generator := torch.DefaultGenerator(torch.CPU)
	now := generator.State()
	if skip > 0 { // the order of the epoch was drawn at its begin
		generator.SetState(t.place.EpochGenerator)
	} else {
		t.place.EpochGenerator = now
	}
	goOn := func() {
		if skip > 0 {
			generator.SetState(now)
		}
	}
	patient := context.WithoutCancel(t.ctx) // so that a window is completed
	for batch, err := range t.train.Batches(patient, t.history.CurrentEpoch()-1, skip) {
		if step == skip {
			goOn()
		}
		if err == nil && !t.place.inWindow {
			err = t.ctx.Err()
		}
		if err != nil {
			return false, t.loadError(err)
		}
		var reached bool
		var failed error
		torch.Scope(func() { reached, failed = t.trainStep(batch, step, n) })
		if failed != nil || reached {
			return reached, failed
		}
		if step++; step >= n {
			break
		}
	}
	return false, nil
}

// loadError tells a run that was interrupted from one whose data cannot be read.
func (t *Trainer[S, B]) loadError(err error) error {
	if t.ctx.Err() != nil {
		return t.interrupted(t.ctx)
	}
	return fmt.Errorf("pytorchaccelerated: %w", err)
}

// trainStep is one batch, and the update if it ends a window.
func (t *Trainer[S, B]) trainStep(batch B, step, n int) (reachedMaxSteps bool, err error) {
	t.place.inWindow = true
	if err := CallEvent(t.Run, "OnTrainStepStart",
		func(h TrainStepStartHook) error { return h.OnTrainStepStart(t.Run) }); err != nil {
		return false, err
	}
	accumulation := t.config.GradientAccumulationSteps
	update := (step+1)%accumulation == 0 || step+1 == n
	if err := t.forwardAndBackward(batch, step, n); err != nil {
		return false, err
	}
	m := &t.options.Methods
	if t.config.GradientClipValue != nil && (update || t.rules.ClipEveryBatch) {
		if err := t.own(m.ClipGradients, t.ClipGradients); err != nil {
			return false, err
		}
	}
	if !update {
		return false, nil
	}
	if err := t.own(m.OptimizerStep, t.OptimizerStep); err != nil {
		return false, err
	}
	if t.schedule != nil && !t.accelerator.OptimizerStepWasSkipped() {
		if err := t.own(m.SchedulerStep, t.SchedulerStep); err != nil {
			return false, err
		}
	}
	if err := t.own(m.OptimizerZeroGrad, t.OptimizerZeroGrad); err != nil {
		return false, err
	}
	t.place.Updates++
	t.place.Batches, t.place.inWindow = step+1, false
	if err := CallEvent(t.Run, "OnUpdateEnd", func(h UpdateEndHook) error { return h.OnUpdateEnd(t.Run) }); err != nil {
		return false, err
	}
	return t.limitReached(step + 1), t.writePending()
}

// limitReached tells whether MaxNumTrainSteps updates have been made, after so many batches of this
// epoch.
func (t *Trainer[S, B]) limitReached(batches int) bool {
	if t.config.MaxNumTrainSteps == 0 {
		return false
	}
	updates := t.place.Updates
	if t.rules.LimitByEpoch {
		updates = (t.history.CurrentEpoch()-1)*t.config.NumUpdateStepsPerEpoch +
			batches/t.config.GradientAccumulationSteps
	}
	return updates >= t.config.MaxNumTrainSteps
}

// forwardAndBackward is _perform_forward_and_backward_passes.
func (t *Trainer[S, B]) forwardAndBackward(batch B, step, n int) error {
	m := &t.options.Methods
	var out BatchOutput
	var err error
	if m.CalculateTrainBatchLoss != nil {
		out, err = m.CalculateTrainBatchLoss(t, batch)
	} else {
		out, err = t.CalculateTrainBatchLoss(batch)
	}
	if err == nil {
		err = out.check("CalculateTrainBatchLoss")
	}
	if err != nil {
		return err
	}
	divided := out.Loss
	if accumulation := t.config.GradientAccumulationSteps; accumulation > 1 {
		divided = out.Loss.DivScalar(t.divisor(accumulation, step, n))
	}
	if t.rules.ReportDividedLoss {
		out.Loss = divided
	}
	t.tracker.Update(out.Loss.Detach().Mean(torch.DefaultDType).Item(), out.BatchSize)
	e := TrainStepEnd{step, batch, &out}
	if err := CallEvent(t.Run, "OnTrainStepEnd",
		func(h TrainStepEndHook) error { return h.OnTrainStepEnd(t.Run, e) }); err != nil {
		return err
	}
	if m.BackwardStep != nil {
		return m.BackwardStep(t, divided)
	}
	return t.BackwardStep(divided)
}

// divisor is what the loss of a batch is divided by.
func (t *Trainer[S, B]) divisor(accumulation, step, n int) float64 {
	if t.rules.DivideByAccumulation {
		return float64(accumulation)
	}
	return float64(min(accumulation, n-step/accumulation*accumulation))
}

// check finds what a method of the user's has left out.
func (o BatchOutput) check(method string) error {
	switch {
	case !o.Loss.Defined():
		return fmt.Errorf("pytorchaccelerated: %s returned no Loss", method)
	case o.BatchSize < 1:
		return fmt.Errorf("pytorchaccelerated: %s returned BatchSize %d; want the number of samples in the batch",
			method, o.BatchSize)
	}
	return nil
}

// recordLoss puts the mean of the losses of an epoch into the history.
func (t *Trainer[S, B]) recordLoss(name string) {
	average := t.tracker.Average()
	if t.rules.Float32EpochLoss {
		average = t.tracker.average32()
	}
	t.history.UpdateMetric(name, average)
}
