package pytorchaccelerated

import (
	"errors"

	"github.com/gotrainer/gotrainer/torch"
)

var errNoEvaluationSet = errors.New("pytorchaccelerated: there is no evaluation set; set TrainOptions.EvalDataset")

// evalEpoch runs the evaluation epoch of the Trainer or of its user.
func (t *Trainer[S, B]) evalEpoch(e EvalEpoch) error {
	if t.eval == nil && !t.rules.LateEvaluationCheck {
		return errNoEvaluationSet
	}
	if door := t.options.Methods.RunEvalEpoch; door != nil {
		return door(t, e)
	}
	return t.RunEvalEpoch(e)
}

// RunEvalEpoch is the Trainer's own evaluation epoch: _run_eval_epoch. Callbacks call
// [Run.EvaluateNow], which leaves the training epoch at hand alone.
func (t *Trainer[S, B]) RunEvalEpoch(e EvalEpoch) error {
	m := &t.options.Methods
	if err := t.own(m.EvalEpochStart, t.EvalEpochStart); err != nil {
		return err
	}
	t.tracker = new(LossTracker)
	limit := t.evalLen()
	if err := CallEvent(t.Run, "OnEvalEpochStart",
		func(h EvalEpochStartHook) error { return h.OnEvalEpochStart(t.Run, e) }); err != nil {
		return err
	}
	if !t.rules.LimitEvalTooLate {
		limit = t.evalLen()
	}
	var err error
	torch.NoGrad(func() { err = t.evalBatches(limit) })
	if err != nil {
		return err
	}
	if err := t.own(m.EvalEpochEnd, t.EvalEpochEnd); err != nil {
		return err
	}
	t.recordLoss(e.metricName())
	return CallEvent(t.Run, "OnEvalEpochEnd", func(h EvalEpochEndHook) error { return h.OnEvalEpochEnd(t.Run, e) })
}

func (t *Trainer[S, B]) evalBatches(limit int) error {
	if t.eval == nil {
		return errNoEvaluationSet
	}
	if t.limitEval == 0 {
		return nil
	}
	step := 0
	for batch, err := range t.eval.Batches(t.ctx, 0, 0) {
		if err == nil {
			err = t.ctx.Err()
		}
		if err != nil {
			return t.loadError(err)
		}
		torch.Scope(func() { err = t.evalStep(batch) })
		if err != nil {
			return err
		}
		if step++; step >= limit {
			return nil
		}
	}
	if t.ctx.Err() != nil {
		return t.interrupted(t.ctx)
	}
	return nil
}

func (t *Trainer[S, B]) evalStep(batch B) error {
	if err := CallEvent(t.Run, "OnEvalStepStart",
		func(h EvalStepStartHook) error { return h.OnEvalStepStart(t.Run) }); err != nil {
		return err
	}
	var out BatchOutput
	var err error
	if door := t.options.Methods.CalculateEvalBatchLoss; door != nil {
		out, err = door(t, batch)
	} else {
		out, err = t.CalculateEvalBatchLoss(batch)
	}
	if err == nil {
		err = out.check("CalculateEvalBatchLoss")
	}
	if err != nil {
		return err
	}
	t.tracker.Update(out.Loss.Detach().Mean(torch.DefaultDType).Item(), out.BatchSize)
	e := EvalStepEnd{batch, &out}
	return CallEvent(t.Run, "OnEvalStepEnd", func(h EvalStepEndHook) error { return h.OnEvalStepEnd(t.Run, e) })
}

// runEvaluation is _run_evaluation.
func (t *Trainer[S, B]) runEvaluation() error {
	m := &t.options.Methods
	if err := t.own(m.EvaluationRunStart, t.EvaluationRunStart); err != nil {
		return err
	}
	if err := CallEvent(t.Run, "OnEvaluationRunStart",
		func(h EvaluationRunStartHook) error { return h.OnEvaluationRunStart(t.Run) }); err != nil {
		return err
	}
	err := t.evalEpoch(EvalEpoch{Evaluation: true})
	var stop *StopTrainingError
	if errors.As(err, &stop) {
		t.Print(stop)
		err = CallEvent(t.Run, "OnStopTrainingError", func(h StopTrainingErrorHook) error {
			return h.OnStopTrainingError(t.Run, stop)
		})
	}
	if err != nil {
		return err
	}
	if err := t.own(m.EvaluationRunEnd, t.EvaluationRunEnd); err != nil {
		return err
	}
	return CallEvent(t.Run, "OnEvaluationRunEnd", func(h EvaluationRunEndHook) error {
		return h.OnEvaluationRunEnd(t.Run)
	})
}
