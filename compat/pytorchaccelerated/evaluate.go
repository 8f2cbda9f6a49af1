package pytorchaccelerated

import (
	"context"
	"errors"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

var errNoEvaluationSet = errors.New("pytorchaccelerated: there is no evaluation set; set TrainOptions.EvalDataset")

// evalEpoch runs the Trainer's evaluation epoch, or the program's replacement.
func (t *Trainer[S, B]) evalEpoch(e EvalEpoch) error {
	if t.eval == nil && !t.rules.LateEvaluationCheck {
		return errNoEvaluationSet
	}
	return t.methods.RunEvalEpoch(t, e)
}

// RunEvalEpoch is the Trainer's own evaluation epoch: _run_eval_epoch. Callbacks should call
// [Run.EvaluateNow], which does not affect the current training epoch.
func (t *Trainer[S, B]) RunEvalEpoch(e EvalEpoch) error {
	if err := t.methods.EvalEpochStart(t); err != nil {
		return err
	}
	t.tracker = new(LossTracker)
	limit := t.EvalDataloaderLen()
	if err := eventWith(t.Run, EvalEpochStartHook.OnEvalEpochStart, e); err != nil {
		return err
	}
	if !t.rules.LimitEvalTooLate {
		limit = t.EvalDataloaderLen()
	}
	var err error
	torch.NoGrad(func() { err = t.evalBatches(limit) })
	if err != nil {
		return err
	}
	if err := t.methods.EvalEpochEnd(t); err != nil {
		return err
	}
	t.recordLoss(e.metricName())
	return eventWith(t.Run, EvalEpochEndHook.OnEvalEpochEnd, e)
}

func (t *Trainer[S, B]) evalBatches(limit int) error {
	if t.eval == nil {
		return errNoEvaluationSet
	}
	if t.limitEval == 0 {
		return nil
	}
	ctx, step := t.ctx, 0
	if t.training { // so that the accumulation window can complete
		ctx = context.WithoutCancel(ctx)
	}
	rounds, err := loops.Most(t.group(), limit) // batches of the process that has the most
	if err == nil {
		err = t.accelerator.BeginBatch(t.accelerator.SyncGradients()) // may be in the middle of an accumulation window
	}
	if err != nil {
		return prefixed(err)
	}
	loading := ctx
	if t.several() { // all processes stop together, in endRound
		loading = context.WithoutCancel(ctx)
	}
	for batch, err := range t.eval.Batches(loading, 0, 0) {
		switch {
		case ctx.Err() != nil:
			err = nil // endRound says so
		case err != nil:
			err = prefixed(err)
		default:
			torch.Scope(func() { err = t.evalStep(batch) })
		}
		if err := t.endRound(ctx, err); err != nil {
			return err
		}
		if step++; step >= limit {
			break
		}
	}
	for ; step < rounds; step++ { // the other processes have more batches, or ctx has ended the pass
		if err := t.endRound(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// endRound ends each batch of an evaluation: if one process has failed or was cancelled, all of
// them stop.
func (t *Trainer[S, B]) endRound(ctx context.Context, err error) error {
	own := err
	if err == nil && ctx.Err() != nil {
		err = loops.ErrInterrupted
	}
	err = loops.Together(t.group(), err)
	switch stop, stopped := errors.AsType[trainer.StopError](err); {
	case own == nil && stopped: // in another process
		return StopTraining(stop.Error())
	case !errors.Is(err, loops.ErrInterrupted):
		return err
	case ctx.Err() != nil:
		err = errors.Join(ctx.Err(), context.Cause(ctx))
	}
	return t.interrupted(err)
}

func (t *Trainer[S, B]) evalStep(batch B) error {
	if err := event(t.Run, EvalStepStartHook.OnEvalStepStart); err != nil {
		return err
	}
	out, err := t.batchLoss("CalculateEvalBatchLoss", t.methods.CalculateEvalBatchLoss, batch)
	if err != nil {
		return err
	}
	t.tracker.Update(out.Loss.Detach().Mean(torch.DefaultDType).Item(), out.BatchSize)
	return eventWith(t.Run, EvalStepEndHook.OnEvalStepEnd, EvalStepEnd{batch, &out})
}

// runEvaluation corresponds to _run_evaluation.
func (t *Trainer[S, B]) runEvaluation() error {
	if err := notify(t, t.methods.EvaluationRunStart, EvaluationRunStartHook.OnEvaluationRunStart); err != nil {
		return err
	}
	err := t.evalEpoch(EvalEpoch{Evaluation: true})
	if stop, ok := errors.AsType[*StopTrainingError](err); ok {
		err = t.reportStop(stop)
	}
	if err != nil {
		return err
	}
	return notify(t, t.methods.EvaluationRunEnd, EvaluationRunEndHook.OnEvaluationRunEnd)
}

// reportStop reports that a callback has ended the run.
func (r *Run) reportStop(stop *StopTrainingError) error {
	r.Print(stop)
	return eventWith(r, StopTrainingErrorHook.OnStopTrainingError, stop)
}
