package pytorchaccelerated

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn"
)

// LimitBatches ends every pass over the training set and over the evaluation set after a number of
// batches, to try a program quickly. Schedules are planned for the shorter epochs, unless
// Rules.PlanIgnoresLimit is set. New adds one before the callbacks if the environment variable
// PT_ACC_LIMIT_BATCHES is set.
type LimitBatches struct {
	NumBatches int // required
}

func (l *LimitBatches) OnTrainingRunStart(r *Run) error {
	r.LimitTrainBatches(l.NumBatches)
	return l.OnEvaluationRunStart(r)
}

func (l *LimitBatches) OnEvaluationRunStart(r *Run) error {
	if l.NumBatches < 1 {
		return fmt.Errorf("its NumBatches is %d: want at least 1", l.NumBatches)
	}
	r.LimitEvalBatches(l.NumBatches)
	return nil
}

// LimitEvalSteps ends evaluations early. Put it before [StepBasedEvaluation] and [ProgressBar].
type LimitEvalSteps struct {
	NumEvalSteps int  // over all processes; required
	AlsoEpochs   bool // also limit the evaluations at the end of epochs: limit_intermediate_only=False

	before *int // the limit that was replaced; nil: none
}

func (l *LimitEvalSteps) OnEvalEpochStart(r *Run, e EvalEpoch) error {
	if l.NumEvalSteps < 1 {
		return fmt.Errorf("its NumEvalSteps is %d: want at least 1", l.NumEvalSteps)
	}
	if !e.Intermediate && !l.AlsoEpochs {
		return nil
	}
	steps := l.NumEvalSteps / r.Config().NumProcesses
	l.before = new(r.LimitEvalBatches(steps))
	if *l.before >= 0 {
		r.LimitEvalBatches(min(steps, *l.before))
	}
	r.Print(fmt.Sprintf("Limiting evaluation to %d steps per process", steps))
	return nil
}

func (l *LimitEvalSteps) OnEvalEpochEnd(r *Run, _ EvalEpoch) error {
	if l.before != nil {
		r.LimitEvalBatches(*l.before)
		l.before = nil
	}
	return nil
}

// StepBasedEvaluation evaluates within an epoch, each time after a number of steps.
type StepBasedEvaluation struct {
	EvalEveryNSteps int // batches of the epoch; required
}

func (s *StepBasedEvaluation) OnTrainStepEnd(r *Run, e TrainStepEnd) error {
	if s.EvalEveryNSteps < 1 {
		return fmt.Errorf("its EvalEveryNSteps is %d: want at least 1", s.EvalEveryNSteps)
	}
	if e.Step == 0 || e.Step%s.EvalEveryNSteps != 0 {
		return nil
	}
	r.Print(fmt.Sprintf("\nRunning evaluation after %d training steps", e.Step))
	epoch := EvalEpoch{Intermediate: true}
	if err := r.EvaluateNow(epoch); err != nil {
		return err
	}
	r.History().DeleteMetric(epoch.metricName())
	r.Print("\nResuming training...")
	return nil
}

// ConvertSyncBatchNorm makes batch normalisation layers share their statistics between processes,
// if the run has several: [nn.ConvertSyncBatchNorm].
type ConvertSyncBatchNorm struct{}

func (*ConvertSyncBatchNorm) OnTrainingRunStart(r *Run) error {
	if r.Config().IsDistributed {
		nn.ConvertSyncBatchNorm(r.Model())
	}
	return nil
}
