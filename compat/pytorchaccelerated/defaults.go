package pytorchaccelerated

import "errors"

// DefaultCallbacks are those of a Trainer that is given none, in their order: DEFAULT_CALLBACKS.
func DefaultCallbacks() []any {
	return []any{&MoveModulesToDevice{}, &TerminateOnNaN{}, &PrintProgress{}, &ProgressBar{}, &LogMetrics{}}
}

// GetDefaultCallbacks are the same, with or without the progress bar: get_default_callbacks.
func GetDefaultCallbacks(progressBar bool) []any {
	if progressBar {
		return DefaultCallbacks()
	}
	return []any{&MoveModulesToDevice{}, &TerminateOnNaN{}, &PrintProgress{}, &LogMetrics{}}
}

// MoveModulesToDevice moves the modules of Options.Modules, such as those of a loss or a metric, to
// the device of the run when it starts. The model is moved by the Trainer.
type MoveModulesToDevice struct{}

var (
	_ TrainingRunStartHook   = (*MoveModulesToDevice)(nil)
	_ EvaluationRunStartHook = (*MoveModulesToDevice)(nil)
)

// OnTrainingRunStart implements [TrainingRunStartHook].
func (*MoveModulesToDevice) OnTrainingRunStart(r *Run) error {
	r.moveModules()
	return nil
}

// OnEvaluationRunStart implements [EvaluationRunStartHook].
func (*MoveModulesToDevice) OnEvaluationRunStart(r *Run) error {
	r.moveModules()
	return nil
}

// TerminateOnNaN ends a run at a loss that is nan or infinite, before its backward pass. Train then
// returns an error for which errors.Is(err, ErrNonFiniteLoss) holds; the process goes on.
type TerminateOnNaN struct{ where string }

var (
	_ TrainStepEndHook     = (*TerminateOnNaN)(nil)
	_ EvalStepEndHook      = (*TerminateOnNaN)(nil)
	_ TrainingRunStartHook = (*TerminateOnNaN)(nil)
	_ TrainingRunEndHook   = (*TerminateOnNaN)(nil)
)

// OnTrainingRunStart forgets an earlier run.
func (t *TerminateOnNaN) OnTrainingRunStart(*Run) error {
	t.where = ""
	return nil
}

// OnTrainStepEnd looks at the loss of a training step.
func (t *TerminateOnNaN) OnTrainStepEnd(_ *Run, e TrainStepEnd) error {
	return t.check(e.Output, "training")
}

// OnEvalStepEnd looks at the loss of an evaluation step.
func (t *TerminateOnNaN) OnEvalStepEnd(_ *Run, e EvalStepEnd) error {
	return t.check(e.Output, "validation")
}

func (t *TerminateOnNaN) check(out *BatchOutput, where string) error {
	if loss := out.Loss.Detach(); loss.IsFinite().All().Item() != 0 {
		return nil
	}
	t.where = where
	return StopTraining("Stopping training due to NaN loss in " + where + " step")
}

// OnTrainingRunEnd makes Train fail if there was such a loss.
func (t *TerminateOnNaN) OnTrainingRunEnd(*Run) error {
	if t.where == "" {
		return nil
	}
	return errors.Join(ErrNonFiniteLoss, errors.New("the run was ended in a "+t.where+" step"))
}
