package pymarlin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Train runs the remaining epochs, each followed by a validation and a checkpoint, and writes the
// model at the end. The loop is that of package trainer, semantics.PyMarlinLoop.
//
// When ctx is cancelled, the current window is finished and a checkpoint written, and the error
// contains the cause. A new trainer continues from there inside the epoch, and so does Train if it
// is called again.
func (t *Trainer[B]) Train(ctx context.Context) (err error) {
	runtime.LockOSThread() // libtorch keeps its modes per thread
	defer runtime.UnlockOSThread()
	defer func() { err = errors.Join(err, t.stats.Flush()) }()
	stats, _ := t.place[statsKey].(State)
	if err := errors.Join(t.setGenerators(t.place[randomKey]), t.stats.load(stats)); err != nil {
		return fmt.Errorf("pymarlin: %w", err)
	}
	if t.lastEpoch+1 < t.args.Epochs {
		if err := t.trainEpochs(ctx); err != nil {
			return err
		}
	}
	t.place = nil
	// Save again: the last epoch need not be one at which checkpoints are saved.
	if err := t.SaveCheckpoint(true); err != nil {
		return err
	}
	if err := t.SaveModelCheckpoint(); err != nil {
		return err
	}
	if err := call(t.module, func(h TrainEndHook) error { return h.OnEndTrain(t.GlobalStepsFinished()) }); err != nil {
		return err
	}
	if err := t.stats.LogLongStats(t.GlobalStepsFinished()); err != nil {
		return err
	}
	t.logger.Info("Finished training")
	return nil
}

var errNoLoader = errors.New("TrainDataloader made no loader, or one without batches, so there is nothing to train " +
	"on; call Validate or Test alone")

// trainEpochs runs the remaining epochs.
func (t *Trainer[B]) trainEpochs(ctx context.Context) error {
	s := &session[B]{pass: pass[B]{t: t, ctx: ctx}, epoch: t.lastEpoch + 1}
	o := t.runOptions()
	o.Epochs, o.Start.Epoch = float64(t.args.Epochs), s.epoch
	o.Callbacks, o.Saver, o.Save = []any{s}, s, trainer.Every(1, trainer.Epoch)
	if run, ok := t.place[runKey].(string); ok {
		s.resumeAt, o.Start = t.place, &trainer.StartPosition{State: []byte(run)}
	}
	err := t.fit(&s.pass, o)
	if err == nil {
		return nil
	}
	var stopped *trainer.InterruptedError
	switch {
	case errors.As(err, &stopped):
		saved := "not saved: " + cmp.Or(stopped.Unsaved, "the checkpointer has written nothing")
		if stopped.Checkpoint != "" {
			saved = "a trainer that loads " + stopped.Checkpoint + " continues there"
		}
		return fmt.Errorf("pymarlin: epoch %d: stopped after batch %d; %s: %w", s.epoch, t.TotalStepsFinished(), saved,
			stopped.Err)
	case errors.Is(err, trainer.ErrOtherRun):
		return fmt.Errorf("pymarlin: %w: it was written inside an epoch: load it with the same data and batch sizes, "+
			"or set Options.InexactResume to begin the epoch again: %w", errNotLoaded, err)
	}
	t.place = nil
	return fmt.Errorf("pymarlin: epoch %d: %w", s.epoch, err)
}

// runOptions returns the options of the loop. Schedules belong to the module, losses to the
// backend.
func (t *Trainer[B]) runOptions() trainer.Options {
	rules := semantics.PyMarlin
	rules.LossReport = semantics.SinceLog
	return trainer.Options{
		Epochs: 1, BatchSize: t.TrainStepBatchSize(), Accumulate: t.GradientAccumulation(),
		MaxStepsPerEpoch: t.args.MaxTrainStepsPerEpoch, Save: trainer.Never, Semantics: rules, Logger: t.logger,
		LogLevel: slog.LevelWarn,
		Start: &trainer.StartPosition{GlobalStep: t.GlobalStepsFinished(), ScheduleSteps: t.GlobalStepsFinished(),
			WindowPhase: t.TotalStepsFinished() % t.GradientAccumulation()},
	}
}

// fit runs the loop.
func (t *Trainer[B]) fit(p *pass[B], o trainer.Options) error {
	if t.batches == 0 {
		return errNoLoader
	}
	p.Batches = p
	return loops.Cause(loops.Fit(p.ctx, t.group(), p, t.batches*t.TrainStepBatchSize(), o))
}

// TrainEpoch runs one pass over the training data and returns its outputs, if the module has a
// TrainEpochEndHook. Nothing is saved.
func (t *Trainer[B]) TrainEpoch(ctx context.Context) (Collected, error) {
	p := &pass[B]{t: t, ctx: ctx}
	o := t.runOptions()
	o.Callbacks = []any{p}
	if err := t.fit(p, o); err != nil {
		return Collected{}, fmt.Errorf("pymarlin: %w", err)
	}
	return p.outputs, nil
}

// Validate runs the validation sets in order and returns the outputs of the last one. The model
// stays in evaluation mode.
func (t *Trainer[B]) Validate(ctx context.Context) (Collected, error) {
	loaders, err := t.module.ValDataloaders(t.backend.ValSampler(), t.args.ValBatchSize)
	if err != nil {
		return Collected{}, err
	}
	last, err := t.evaluate(ctx, loaders, t.module.ValStep, func(c Collected, key string) error {
		return call(t.module, func(h ValEpochEndHook) error { return h.OnEndValEpoch(t.GlobalStepsFinished(), c, key) })
	})
	if err != nil {
		return Collected{}, err
	}
	return last, t.stats.LogLongStats(t.GlobalStepsFinished())
}

// Test runs the test sets of a [TestModule] and returns the outputs of the last one; report, if
// not nil, is called with those of each. PyMarlin has the methods of a test and leaves calling
// them to scripts.
func (t *Trainer[B]) Test(ctx context.Context, report func(outputs Collected, key string) error) (Collected, error) {
	m, ok := t.module.(TestModule[B])
	if !ok {
		return Collected{}, fmt.Errorf("pymarlin: Test: a %T has no methods TestDataloaders and TestStep", t.module)
	}
	loaders, err := m.TestDataloaders(t.backend.ValSampler(), t.args.ValBatchSize)
	if err != nil {
		return Collected{}, err
	}
	return t.evaluate(ctx, loaders, m.TestStep, report)
}

func (t *Trainer[B]) evaluate(ctx context.Context, loaders Dataloaders[B], step StepFunc[B], report func(Collected,
	string) error) (last Collected, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setTraining(t.module, false)
	for _, l := range loaders {
		if l.Loader == nil {
			return Collected{}, fmt.Errorf("the set %q has no loader", l.Key)
		}
		outputs, err := t.backend.ValidateDL(ctx, l.Loader, step)
		if err == nil && report != nil {
			err = loops.Scoped(func() error { return report(outputs, l.Key) })
		}
		if err != nil {
			outputs.free()
			return Collected{}, fmt.Errorf("set %q: %w", l.Key, err)
		}
		last.free()
		last = outputs
	}
	return last, nil
}

// SaveCheckpoint passes the states of module, trainer and backend to the checkpointer. force saves
// whatever the period is. All processes must call it; the main one writes.
func (t *Trainer[B]) SaveCheckpoint(force bool) error {
	p, err := t.currentPlace()
	if err == nil {
		_, err = t.save(p, t.lastEpoch, force)
	}
	return err
}

func (t *Trainer[B]) save(place State, index int, force bool) (path string, err error) {
	err = loops.Scoped(func() error {
		var c Checkpoint
		var err error
		c.TrainerState, err = t.stateAt(place)
		if err = loops.Together(t.group(), err); err == nil {
			c.TrainerBackendState, err = t.backend.GetState()
		}
		path, err = t.fromMain(err, func() (path string, err error) {
			if c.ModuleInterfaceState, err = moduleState(t.module); err != nil {
				return "", err
			}
			return t.checkpointer.Save(c, index, force)
		})
		return err
	})
	return path, err
}

// SaveModelCheckpoint passes only the state of the module to the checkpointer. All processes must
// call it; the main one writes.
func (t *Trainer[B]) SaveModelCheckpoint() error {
	return loops.Scoped(func() error {
		_, err := t.fromMain(nil, func() (string, error) {
			s, err := moduleState(t.module)
			if err != nil {
				return "", err
			}
			return t.checkpointer.SaveModel(s, t.lastEpoch)
		})
		return err
	})
}
