package pytorchaccelerated

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// This file runs the loop of package trainer, whose hooks trigger the events of this Trainer.

// semantics returns the rules that package trainer implements.
func (r Rules) semantics() semantics.Rules {
	s := semantics.Rules{Name: semantics.PytorchAccelerated.Name, Loop: semantics.PytorchAcceleratedLoop,
		PlanIgnoresLimit: r.PlanIgnoresLimit, LimitByEpoch: r.LimitByEpoch, EpochsPerSession: r.EpochsPerSession,
		ClipEveryBatch: r.ClipEveryBatch}
	if r.DivideByAccumulation {
		s.Divisor = semantics.Accumulate
	}
	return s
}

// RunTraining is the outer loop: _run_training.
func (t *Trainer[S, B]) RunTraining() error {
	if t.train == nil {
		return errors.New("pytorchaccelerated: RunTraining: there is no training run; call Train")
	}
	c := t.config
	s := &session[S, B]{t: t}
	s.Batches = s
	o := trainer.Options{
		Epochs: float64(c.NumEpochs), Accumulate: c.GradientAccumulationSteps, LimitBatches: t.limitOfCallbacks(),
		BatchSize: c.TrainPerDeviceBatchSize, LearningRate: 1, // the session's own schedule sets the rate
		Semantics: t.rules.semantics(), Start: t.start, Callbacks: []any{s},
	}
	// An epoch ends after the updates of this process; with LimitByEpoch it counts as the updates
	// of all processes.
	counted, local := t.countedSteps(c), c.NumLocalUpdateStepsPerEpoch
	if m := c.MaxNumTrainSteps; m > 0 && m-(c.NumEpochs-1)*counted <= local {
		o.Epochs, o.MaxSteps = 0, m-(c.NumEpochs-1)*(counted-local)
	}
	if s.states = callback[*SaveTrainingState](t.Run); s.states != nil { // the loop saves only when interrupted
		o.Saver, o.Save = s, trainer.Every(math.MaxInt, trainer.Update)
	}
	err := loops.Cause(loops.Fit(t.ctx, t.group(), s, max(1, t.trainSet.Len()), o))
	if no, ok := errors.AsType[noStop](err); ok {
		return no.error
	}
	stop, interrupted := errors.AsType[*trainer.InterruptedError](err)
	if !interrupted {
		return err
	}
	where := "its state is in " + stop.Checkpoint
	switch {
	case s.states == nil:
		where = "no callback SaveTrainingState says where to save it"
	case stop.Checkpoint == "":
		where = "it was not saved: " + stop.Unsaved
	}
	return fmt.Errorf("%w; %s", t.interrupted(stop.Err), where)
}

// RunTrainEpoch is the inner loop: _run_train_epoch. It reports whether MaxNumTrainSteps has been
// reached. It may be called only by a RunTrainEpoch of Methods, since the epochs are those of
// RunTraining.
func (t *Trainer[S, B]) RunTrainEpoch() (reachedMaxSteps bool, err error) {
	if t.trainBatches == nil {
		return false, errors.New("pytorchaccelerated: RunTrainEpoch: there is no epoch to train; epochs are started by " +
			"RunTraining, so call it in Methods.RunTrainEpoch")
	}
	if t.now.Batches == 0 {
		t.tracker, t.place = new(LossTracker), place{}
	}
	t.training = true
	defer func() { t.training = false }()
	if err := notify(t, t.methods.TrainEpochStart, TrainEpochStartHook.OnTrainEpochStart); err != nil {
		return false, err
	}
	t.now.LimitBatches(limited(t.train, t.limitTrain))
	if t.train.Len() == 0 && t.limitTrain != 0 { // a pass without batches draws its random numbers, too
		for _, err := range t.train.Batches(t.ctx, t.history.CurrentEpoch()-1, 0) {
			if err != nil {
				return false, err
			}
			return false, errors.New("pytorchaccelerated: the loader has a batch, and its Len is 0")
		}
	}
	if err := t.trainBatches(); err != nil {
		return false, err
	}
	t.training = false
	reachedMaxSteps = t.config.MaxNumTrainSteps > 0 && t.now.Control.ShouldTrainingStop
	if t.place.Trained { // it ended before the state was saved from which the run resumed
		return reachedMaxSteps, nil
	}
	if err := t.methods.TrainEpochEnd(t); err != nil {
		return false, err
	}
	t.recordLoss("train_loss_epoch")
	t.place.Trained = true
	return reachedMaxSteps, t.duringEvent(func() error { return event(t.Run, TrainEpochEndHook.OnTrainEpochEnd) })
}

// session is a training run as package trainer sees it: its step, made of the Trainer's methods or
// their replacements, its loader, and its hooks, which trigger the Trainer's events.
type session[S, B any] struct {
	loops.Step[B]
	t       *Trainer[S, B]
	states  *SaveTrainingState // nil: there is none
	reached bool               // MaxNumTrainSteps has been reached
	epochs  int                // epochs in this session
	window  int                // batches in the current accumulation window
}

// noStop hides a StopError from the loop, for errors from events in which StopTraining cannot end a
// run.
type noStop struct{ error }

func (s *session[S, B]) TrainBegin(r *trainer.Run) error {
	t := s.t
	t.now, t.updates = r, r.Updates
	if err := notify(t, t.methods.TrainingRunStart, TrainingRunStartHook.OnTrainingRunStart); err != nil {
		return noStop{err}
	}
	return nil
}

func (s *session[S, B]) AroundEpoch(r *trainer.Run, train func() error) (err error) {
	t := s.t
	s.epochs++
	t.trainBatches = func() error { return loops.Cause(train()) }
	defer func() { t.trainBatches = nil }()
	if s.reached, err = t.methods.RunTrainEpoch(t); err == nil && s.reached {
		r.Control.ShouldTrainingStop = true
	}
	return err
}

func (s *session[S, B]) BatchBegin(*trainer.Run) error {
	s.t.inWindow = true
	return loops.Scoped(func() error { return event(s.t.Run, TrainStepStartHook.OnTrainStepStart) })
}

func (s *session[S, B]) StepEnd(*trainer.Run) error {
	if s.t.inWindow { // with Rules.LimitIsLength
		return nil
	}
	return s.t.duringEvent(func() error {
		return loops.Scoped(func() error { return event(s.t.Run, UpdateEndHook.OnUpdateEnd) })
	})
}

// EpochDone runs the evaluation epoch and the events at the end of an epoch.
func (s *session[S, B]) EpochDone(*trainer.Run) error {
	t := s.t
	if t.args.EvalDataset != nil {
		before, err := t.state()
		if err != nil {
			return err
		}
		before.Place.Generator = torch.DefaultGenerator(torch.CPU).State()
		t.beforeEval = &before
		if err := t.evalEpoch(EvalEpoch{}); err != nil {
			return err
		}
		t.beforeEval = nil
	}
	t.evaluated = true
	if err := t.duringEvent(func() error {
		return notify(t, t.methods.TrainingRunEpochEnd, TrainingRunEpochEndHook.OnTrainingRunEpochEnd)
	}); err != nil {
		return err
	}
	t.history.IncrementEpoch()
	t.place, t.evaluated = place{}, false
	if s.reached {
		t.Print(fmt.Sprintf("Reached max number of training steps %d in epoch %d", t.config.MaxNumTrainSteps, s.epochs))
	}
	return nil
}

func (s *session[S, B]) Stopped(_ *trainer.Run, reason error) error {
	return s.t.reportStop(&StopTrainingError{reason.Error()})
}

func (s *session[S, B]) TrainEnd(*trainer.Run) error {
	t := s.t
	// A hook may have stopped the run within a window: the gradients accumulated so far are
	// dropped.
	t.inWindow, t.beforeEval, t.evaluated = false, nil, t.place.Trained
	if err := notify(t, t.methods.TrainingRunEnd, TrainingRunEndHook.OnTrainingRunEnd); err != nil {
		return noStop{err}
	}
	return nil
}

// SaveCheckpoint saves the state of a run that was cancelled.
func (s *session[S, B]) SaveCheckpoint(_ *trainer.Run, state []byte) (string, error) {
	dir := filepath.Join(s.states.dir(), "interrupted")
	return dir, s.t.writeState(dir, s.states.extra(), state)
}

// Len implements trainer.BatchLoader. A pass without batches counts as one batch, which is never
// trained on.
func (s *session[S, B]) Len() int { return max(1, s.t.train.Len()) }

// Epoch implements trainer.BatchLoader. The order of an epoch is drawn when it begins, so a pass
// that resumes an epoch begins with the generator state of that time, and then returns to the
// current one.
func (s *session[S, B]) Epoch(ctx context.Context, _, skip int) iter.Seq2[B, error] {
	t := s.t
	return func(yield func(B, error) bool) {
		generator := torch.DefaultGenerator(torch.CPU)
		now := generator.State()
		again := skip > 0
		if err := t.beginPass(again, generator, now); err != nil {
			yield(*new(B), err)
			return
		}
		for batch, err := range t.train.Batches(ctx, t.history.CurrentEpoch()-1, skip) {
			if again {
				generator.SetState(now)
				again = false
			}
			if err == nil {
				err = ctx.Err()
			} else {
				err = fmt.Errorf("pytorchaccelerated: cannot load a batch in epoch %d after %d updates: %w",
					t.history.CurrentEpoch(), t.updates, err)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// beginPass saves the state of the random generators at the beginning of a pass, or restores it.
func (r *Run) beginPass(again bool, generator *torch.Generator, now []byte) (err error) {
	if again {
		generator.SetState(r.place.EpochGenerator)
	} else {
		r.place.EpochGenerator = now
	}
	switch {
	case r.order == nil:
	case again:
		err = r.order.SetState(r.place.EpochOrder)
	default:
		r.place.EpochOrder, err = r.order.State()
	}
	return err
}

func (s *session[S, B]) About() trainer.About { return trainer.About{Clips: true, JoinsGroup: true} }

// Train corresponds to _perform_forward_and_backward_passes.
func (s *session[S, B]) Train(_ context.Context, batch B, w trainer.Window) error {
	s.window = w.Len
	return loops.Scoped(func() error {
		if err := s.t.accelerator.BeginBatch(w.Index == w.Len-1 && !s.unfinished()); err != nil {
			return err
		}
		return s.forwardAndBackward(batch, w.Divisor)
	})
}

func (s *session[S, B]) forwardAndBackward(batch B, divisor float64) error {
	t := s.t
	out, err := t.batchLoss("CalculateTrainBatchLoss", t.methods.CalculateTrainBatchLoss, batch)
	if err != nil {
		return err
	}
	if out.NumItemsInBatch > 0 && t.config.GradientAccumulationSteps > 1 && t.several() {
		out.Loss = out.Loss.MulScalar(float64(t.config.NumProcesses)) // undoes the averaging over processes
	}
	divided := out.Loss
	if t.config.GradientAccumulationSteps > 1 {
		divided = out.Loss.DivScalar(divisor)
	}
	if t.rules.ReportDividedLoss {
		out.Loss = divided
	}
	t.tracker.Update(out.Loss.Detach().Mean(torch.DefaultDType).Item(), out.BatchSize)
	e := TrainStepEnd{t.now.Batches, batch, &out}
	if err := eventWith(t.Run, TrainStepEndHook.OnTrainStepEnd, e); err != nil {
		return err
	}
	return t.methods.BackwardStep(t, divided)
}

func (s *session[S, B]) Clip(context.Context) error {
	if s.t.config.GradientClipValue == nil || s.unfinished() && !s.t.rules.ClipEveryBatch {
		return nil
	}
	return loops.Scoped(func() error { return s.t.methods.ClipGradients(s.t) })
}

// unfinished reports whether the current window gets no update: see Rules.LimitIsLength.
func (s *session[S, B]) unfinished() bool {
	return s.t.rules.LimitIsLength && s.t.limitTrain > s.t.train.Len() &&
		s.window < s.t.config.GradientAccumulationSteps
}

// Update ignores the loop's rate: the Trainer's schedule sets it.
func (s *session[S, B]) Update(context.Context, float64) (applied bool, err error) {
	if s.unfinished() {
		return false, nil
	}
	err = loops.Scoped(s.update)
	return err == nil && !s.t.accelerator.OptimizerStepWasSkipped(), err
}

func (s *session[S, B]) update() error {
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

// batchLoss calls a method, which may be the program's, and checks and completes its result.
func (t *Trainer[S, B]) batchLoss(name string, method func(*Trainer[S, B], B) (BatchOutput, error), batch B) (
	out BatchOutput, err error) {
	switch out, err = method(t, batch); {
	case err != nil:
	case !out.Loss.Defined():
		err = fmt.Errorf("pytorchaccelerated: %s returned no Loss", name)
	case out.BatchSize < 1:
		err = fmt.Errorf("pytorchaccelerated: %s returned BatchSize %d; want the number of samples in the batch", name,
			out.BatchSize)
	}
	return out, err
}
