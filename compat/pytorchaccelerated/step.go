package pytorchaccelerated

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// step is the arithmetic of the Trainer for package trainer, made of its methods or those in their
// place. The loader makes the batches, and the Trainer evaluates.
type step[S, B any] struct {
	trainer.BaseStep[struct{}, B]
	t      *Trainer[S, B]
	hooks  *hooks[S, B]
	window int // batches of the current window
}

var errNotAsked = errors.New("pytorchaccelerated: the loop was to leave samples and evaluations to this Trainer")

func (s *step[S, B]) About() trainer.About { return trainer.About{Clips: true} }

func (s *step[S, B]) Loader(data.Dataset[struct{}], trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	return passes[S, B]{s.t}, nil
}

func (s *step[S, B]) Collate([]struct{}) (none B, err error) { return none, errNotAsked }

// Train is _perform_forward_and_backward_passes.
func (s *step[S, B]) Train(_ context.Context, batch B, w trainer.Window) (err error) {
	s.window = w.Len
	torch.Scope(func() { err = s.forwardAndBackward(batch, w.Divisor) })
	return s.hooks.fail(err)
}

func (s *step[S, B]) forwardAndBackward(batch B, divisor float64) error {
	t := s.t
	out, err := t.methods.CalculateTrainBatchLoss(t, batch)
	if err == nil {
		err = out.check("CalculateTrainBatchLoss")
	}
	if err != nil {
		return err
	}
	divided := out.Loss
	if t.config.GradientAccumulationSteps > 1 {
		divided = out.Loss.DivScalar(divisor)
	}
	if t.rules.ReportDividedLoss {
		out.Loss = divided
	}
	t.tracker.Update(out.Loss.Detach().Mean(torch.DefaultDType).Item(), out.BatchSize)
	e := TrainStepEnd{t.step, batch, &out}
	if err := CallEvent(t.Run, "OnTrainStepEnd",
		func(h TrainStepEndHook) error { return h.OnTrainStepEnd(t.Run, e) }); err != nil {
		return err
	}
	return t.methods.BackwardStep(t, divided)
}

func (s *step[S, B]) Clip(context.Context) (err error) {
	if s.t.config.GradientClipValue == nil || s.unfinished() && !s.t.rules.ClipEveryBatch {
		return nil
	}
	torch.Scope(func() { err = s.t.methods.ClipGradients(s.t) })
	return s.hooks.fail(err)
}

// unfinished tells whether the window gets no update: see Rules.LimitIsLength.
func (s *step[S, B]) unfinished() bool {
	return s.t.rules.LimitIsLength && s.t.limitTrain > s.t.train.Len() &&
		s.window < s.t.config.GradientAccumulationSteps
}

// Update has the rate of the Trainer's schedule.
func (s *step[S, B]) Update(context.Context, float64) (applied bool, err error) {
	if s.unfinished() {
		return false, nil
	}
	torch.Scope(func() { err = s.update() })
	return err == nil && !s.t.accelerator.OptimizerStepWasSkipped(), s.hooks.fail(err)
}

func (s *step[S, B]) update() error {
	t := s.t
	if err := t.methods.OptimizerStep(t); err != nil {
		return err
	}
	if t.schedule != nil && !t.accelerator.OptimizerStepWasSkipped() {
		if err := t.methods.SchedulerStep(t); err != nil {
			return err
		}
	}
	if err := t.methods.OptimizerZeroGrad(t); err != nil {
		return err
	}
	t.updates++
	t.inWindow = false
	return nil
}

// Report has no loss: they are in the LossTracker.
func (s *step[S, B]) Report(context.Context) (trainer.Report, error) {
	return trainer.Report{GradNorm: -1}, nil
}

func (s *step[S, B]) Eval(context.Context, B) error { return errNotAsked }

func (s *step[S, B]) Metrics(context.Context) (trainer.Metrics, error) { return nil, errNotAsked }

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
