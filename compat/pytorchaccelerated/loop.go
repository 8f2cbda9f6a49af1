package pytorchaccelerated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// This file hands the loop to package trainer. What it hands over is in step.go; the events of this
// Trainer are hooks there.

// semantics are the rules that the loop has too.
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
	h := &hooks[S, B]{t: t}
	o := trainer.Options{
		Epochs: float64(c.NumEpochs), Accumulate: c.GradientAccumulationSteps, LimitBatches: t.limitOfCallbacks(),
		BatchSize: c.TrainPerDeviceBatchSize, LearningRate: 1, Schedule: lr.Constant{}, // the step moves the rate
		Log: trainer.Never, Eval: trainer.Never, Semantics: t.rules.semantics(), Start: t.start, Callbacks: []any{h},
		Progress: io.Discard,
		Process:  trainer.Process{World: 1},
	}
	if m := c.MaxNumTrainSteps; m > 0 && m <= c.NumEpochs*c.NumUpdateStepsPerEpoch {
		o.Epochs, o.MaxSteps = 0, m
	}
	for _, c := range t.callbacks {
		if s, ok := c.(*SaveTrainingState); ok { // the loop saves where it is interrupted, and never else
			h.states, o.Saver, o.Save = s, h, trainer.Every(math.MaxInt, trainer.Update)
		}
	}
	loop, err := trainer.New[struct{}, B](&step[S, B]{t: t, hooks: h}, o)
	if err != nil {
		return fmt.Errorf("pytorchaccelerated: %w", err)
	}
	samples := data.Func(max(1, t.sets.train.Len()), func(int) (none struct{}, err error) { return none, nil })
	if _, err = loop.Fit(t.ctx, samples, nil); err == nil {
		return nil
	}
	var stop *trainer.InterruptedError
	switch {
	case errors.As(err, &stop) && stop.Checkpoint != "":
		return fmt.Errorf("%w; its state is in %s", t.interrupted(stop.Err), stop.Checkpoint)
	case stop != nil && h.states == nil:
		return fmt.Errorf("%w; no callback SaveTrainingState says where to save it", t.interrupted(stop.Err))
	case stop != nil:
		return fmt.Errorf("%w; it was not saved: %s", t.interrupted(stop.Err), stop.Unsaved)
	case h.failure != nil:
		return h.failure
	}
	return fmt.Errorf("pytorchaccelerated: %w", err)
}

// RunTrainEpoch is the inner loop: _run_train_epoch. It reports whether MaxNumTrainSteps has been
// reached. It is for a RunTrainEpoch of Methods to call, since the epochs are those of RunTraining.
func (t *Trainer[S, B]) RunTrainEpoch() (reachedMaxSteps bool, err error) {
	if t.trainBatches == nil {
		return false, errors.New("pytorchaccelerated: RunTrainEpoch: no epoch is to be trained; epochs are those of " +
			"RunTraining, so call it in Methods.RunTrainEpoch")
	}
	if t.now.Batches == 0 {
		t.tracker, t.place.EpochGenerator, t.place.Trained = new(LossTracker), nil, false
	}
	t.training = true
	defer func() { t.training = false }()
	if err := tell(t, t.methods.TrainEpochStart, TrainEpochStartHook.OnTrainEpochStart); err != nil {
		return false, err
	}
	t.now.LimitBatches(limited(t.train, t.limitTrain))
	if t.train.Len() == 0 && t.limitTrain != 0 { // a pass without batches draws its random numbers too
		for range t.train.Batches(t.ctx, t.history.CurrentEpoch()-1, 0) {
			return false, errors.New("pytorchaccelerated: the loader has a batch, and its Len is 0")
		}
	}
	if err := t.trainBatches(); err != nil {
		return false, err
	}
	t.training = false
	reachedMaxSteps = t.config.MaxNumTrainSteps > 0 && t.now.Control.ShouldTrainingStop
	if t.place.Trained { // before the state was saved that the run has begun from
		return reachedMaxSteps, nil
	}
	if err := t.methods.TrainEpochEnd(t); err != nil {
		return false, err
	}
	t.recordLoss("train_loss_epoch")
	t.place.Trained = true
	return reachedMaxSteps, event(t.Run, TrainEpochEndHook.OnTrainEpochEnd)
}

// hooks are the events of the Trainer, as the hooks of package trainer that have the names of its
// methods.
type hooks[S, B any] struct {
	t       *Trainer[S, B]
	states  *SaveTrainingState // nil: there is none
	reached bool               // MaxNumTrainSteps
	epochs  int                // of this session
	failure error              // the Trainer's own error, which the loop returns as that of a hook or a step
}

// fail returns an error to the loop.
func (h *hooks[S, B]) fail(err error) error {
	h.failure = err
	return err
}

// failOutside is fail where StopTraining is no way to end a run.
func (h *hooks[S, B]) failOutside(err error) error {
	if h.fail(err) == nil {
		return nil
	}
	return errors.New(err.Error())
}

func (h *hooks[S, B]) TrainBegin(r *trainer.Run) error {
	t := h.t
	t.now, t.updates = r, r.Updates
	return h.failOutside(tell(t, t.methods.TrainingRunStart, TrainingRunStartHook.OnTrainingRunStart))
}

func (h *hooks[S, B]) AroundEpoch(r *trainer.Run, train func() error) error {
	t := h.t
	h.epochs++
	t.trainBatches = func() error {
		if err := train(); err != nil {
			if h.failure != nil {
				return h.failure
			}
			return err
		}
		return nil
	}
	defer func() { t.trainBatches = nil }()
	var err error
	if h.reached, err = t.methods.RunTrainEpoch(t); err != nil {
		return h.fail(err)
	}
	r.Control.ShouldTrainingStop = r.Control.ShouldTrainingStop || h.reached
	return nil
}

func (h *hooks[S, B]) BatchBegin(r *trainer.Run) (err error) {
	t := h.t
	t.step, t.inWindow = r.Batches, true
	torch.Scope(func() { err = event(t.Run, TrainStepStartHook.OnTrainStepStart) })
	return h.fail(err)
}

func (h *hooks[S, B]) StepEnd(*trainer.Run) (err error) {
	t := h.t
	if t.inWindow { // under Rules.LimitIsLength
		return nil
	}
	torch.Scope(func() { err = event(t.Run, UpdateEndHook.OnUpdateEnd) })
	if err == nil {
		err = t.writePending()
	}
	return h.fail(err)
}

// EpochDone has the evaluation epoch, and the end of both.
func (h *hooks[S, B]) EpochDone(*trainer.Run) error {
	t := h.t
	if t.sets.eval != nil {
		before, err := t.state()
		if err != nil {
			return h.fail(err)
		}
		before.Place.Generator = torch.DefaultGenerator(torch.CPU).State()
		t.beforeEval = &before
		if err := t.evalEpoch(EvalEpoch{}); err != nil {
			return h.fail(err)
		}
		t.beforeEval = nil
	}
	t.evaluated = true
	if err := tell(t, t.methods.TrainingRunEpochEnd, TrainingRunEpochEndHook.OnTrainingRunEpochEnd); err != nil {
		return h.fail(err)
	}
	t.history.IncrementEpoch()
	t.place.Trained, t.place.EpochGenerator, t.evaluated = false, nil, false
	if h.reached {
		t.Print(fmt.Sprintf("Reached max number of training steps %d in epoch %d", t.config.MaxNumTrainSteps, h.epochs))
	}
	return nil
}

func (h *hooks[S, B]) Stopped(_ *trainer.Run, reason error) error {
	return h.fail(h.t.tellStop(&StopTrainingError{reason.Error()}))
}

func (h *hooks[S, B]) TrainEnd(*trainer.Run) error {
	t := h.t
	// what a hook has ended is over: gradients that were gathered are in no file
	t.inWindow, t.beforeEval, t.evaluated = false, nil, t.place.Trained
	return h.failOutside(tell(t, t.methods.TrainingRunEnd, TrainingRunEndHook.OnTrainingRunEnd))
}

// SaveCheckpoint keeps the state of a run that was cancelled.
func (h *hooks[S, B]) SaveCheckpoint(_ *trainer.Run, state []byte) (string, error) {
	dir := h.states.interruptedDir()
	return dir, h.t.writeWith(dir, h.states.extra(), state)
}

// passes are the passes over the training set.
type passes[S, B any] struct{ t *Trainer[S, B] }

// Len implements trainer.BatchLoader. A pass without batches is one of which nothing is trained on.
func (p passes[S, B]) Len() int { return max(1, p.t.train.Len()) }

// Epoch implements trainer.BatchLoader. The order of an epoch is drawn at its begin, so a pass that
// continues begins with the random numbers of then, and goes back to those of now.
func (p passes[S, B]) Epoch(ctx context.Context, _, skip int) iter.Seq2[B, error] {
	t := p.t
	return func(yield func(B, error) bool) {
		generator := torch.DefaultGenerator(torch.CPU)
		now := generator.State()
		if skip > 0 {
			generator.SetState(t.place.EpochGenerator)
		} else {
			t.place.EpochGenerator = now
		}
		begun := false
		for batch, err := range t.train.Batches(ctx, t.history.CurrentEpoch()-1, skip) {
			if skip > 0 && !begun {
				generator.SetState(now)
			}
			if begun = true; err == nil {
				err = ctx.Err()
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}
