package pymarlin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Train runs the epochs that are left, each followed by a validation and a checkpoint, and writes
// the model at the end.
//
// When ctx is cancelled it returns the cause after the batch at hand; the checkpoint of the epoch
// before is there to go on from.
func (t *Trainer[B]) Train(ctx context.Context) (err error) {
	runtime.LockOSThread() // libtorch keeps its modes by thread
	defer runtime.UnlockOSThread()
	defer func() { err = errors.Join(err, t.stats.Flush()) }()
	if err := setRandomState(t.random); err != nil {
		return fmt.Errorf("pymarlin: %w: the generators: %w", errNotLoaded, err)
	}
	t.random = nil
	for epoch := t.lastEpoch + 1; epoch < t.args.Epochs; epoch++ {
		if err := t.epoch(ctx, epoch); err != nil {
			return fmt.Errorf("pymarlin: epoch %d: %w", epoch, err)
		}
	}
	// Once more, since the last epoch need not be one that the period saves.
	if err := t.SaveCheckpoint(true); err != nil {
		return err
	}
	if err := t.SaveModelCheckpoint(); err != nil {
		return err
	}
	if h, ok := t.module.(TrainEndHook); ok {
		if err := scoped(func() error { return h.OnEndTrain(t.GlobalStepsFinished()) }); err != nil {
			return err
		}
	}
	if err := t.stats.LogLongStats(t.GlobalStepsFinished()); err != nil {
		return err
	}
	t.logger.Info("Finished training")
	return nil
}

func (t *Trainer[B]) epoch(ctx context.Context, epoch int) error {
	t.logger.Info("Training", "epoch", epoch)
	t.stats.Update("epoch", float64(epoch), true)
	if h, ok := t.module.(TrainEpochBeginHook); ok {
		if err := scoped(func() error { return h.OnBeginTrainEpoch(t.GlobalStepsFinished(), epoch) }); err != nil {
			return err
		}
	}
	setTraining(t.module, true)
	outputs, err := t.TrainEpoch(ctx)
	if err != nil {
		return err
	}
	defer outputs.free()
	t.logger.Info("Validating", "epoch", epoch)
	last, err := t.Validate(ctx)
	if err != nil {
		return err
	}
	last.free()
	if h, ok := t.module.(TrainEpochEndHook); ok { // after the validation, as in PyMarlin
		if err := scoped(func() error { return h.OnEndTrainEpoch(t.GlobalStepsFinished(), outputs) }); err != nil {
			return err
		}
	}
	if err := t.stats.LogLongStats(t.GlobalStepsFinished()); err != nil {
		return err
	}
	t.lastEpoch = epoch
	return t.SaveCheckpoint(false)
}

// TrainEpoch runs one pass over the training data.
func (t *Trainer[B]) TrainEpoch(ctx context.Context) (Collected, error) {
	loader, err := t.module.TrainDataloader(t.backend.TrainSampler(), t.TrainStepBatchSize())
	if err != nil {
		return Collected{}, err
	}
	if loader == nil {
		return Collected{}, errors.New("TrainDataloader made no loader, so there is nothing to train on; call " +
			"Validate or Test alone")
	}
	return t.backend.TrainDL(ctx, loader)
}

// Validate runs the validation sets in their order and returns the outputs of the last. The model
// stays in evaluation mode.
func (t *Trainer[B]) Validate(ctx context.Context) (Collected, error) {
	loaders, err := t.module.ValDataloaders(t.backend.ValSampler(), t.args.ValBatchSize)
	if err != nil {
		return Collected{}, err
	}
	report := func(Collected, string) error { return nil }
	if h, ok := t.module.(ValEpochEndHook); ok {
		report = func(c Collected, key string) error { return h.OnEndValEpoch(t.GlobalStepsFinished(), c, key) }
	}
	last, err := t.evaluate(ctx, loaders, t.module.ValStep, report)
	if err != nil {
		return Collected{}, err
	}
	return last, t.stats.LogLongStats(t.GlobalStepsFinished())
}

// Test runs a [TestModule]'s test sets and returns the outputs of the last; report, if it is not
// nil, sees those of each. PyMarlin has the methods of a test and leaves calling them to scripts.
func (t *Trainer[B]) Test(ctx context.Context, report func(outputs Collected, key string) error) (Collected, error) {
	m, ok := t.module.(TestModule[B])
	if !ok {
		return Collected{}, fmt.Errorf("pymarlin: Test: a %T has no methods TestDataloaders and TestStep", t.module)
	}
	loaders, err := m.TestDataloaders(t.backend.ValSampler(), t.args.ValBatchSize)
	if err != nil {
		return Collected{}, err
	}
	if report == nil {
		report = func(Collected, string) error { return nil }
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
		if err == nil {
			err = scoped(func() error { return report(outputs, l.Key) })
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

// SaveCheckpoint hands the states of module, trainer and backend to the checkpointer. force saves
// whatever the period says.
func (t *Trainer[B]) SaveCheckpoint(force bool) error {
	return scoped(func() error {
		var c Checkpoint
		var err error
		if c.ModuleInterfaceState, err = moduleState(t.module); err != nil {
			return err
		}
		if c.TrainerState, err = t.GetState(); err != nil {
			return err
		}
		if c.TrainerBackendState, err = t.backend.GetState(); err != nil {
			return err
		}
		_, err = t.checkpointer.Save(c, t.lastEpoch, force)
		return err
	})
}

// SaveModelCheckpoint hands the state of the module alone to the checkpointer.
func (t *Trainer[B]) SaveModelCheckpoint() error {
	return scoped(func() error {
		s, err := moduleState(t.module)
		if err != nil {
			return err
		}
		_, err = t.checkpointer.SaveModel(s, t.lastEpoch)
		return err
	})
}
