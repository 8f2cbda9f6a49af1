package hezar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
)

// Train trains to the end of the run, from wherever State stands: epoch by epoch the training loop,
// a checkpoint, an evaluation, the log. The loop is that of package trainer, semantics.HezarLoop.
// If ctx ends, the window in progress is finished and a checkpoint written, from which
// ResumeFromCheckpoint continues; the error is then ctx's.
func (t *Trainer[S, B]) Train(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, t.Close()) }()
	t.PrintInfo()
	s := &session[S, B]{t: t}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	t.session = s
	defer func() { t.session, t.runState = nil, nil }()
	run, err := trainer.New(&step[S, B]{t: t}, t.runOptions(s))
	if err != nil {
		return err
	}
	if _, err := run.Fit(s.ctx, t.train, nil); err != nil {
		return t.explain(err)
	}
	t.options.Logger.Info("Training done!")
	return nil
}

// runOptions are those of the loop. The rate is none of its business but for when it moves:
// lr_scheduler.pt has it, so the Trainer does.
func (t *Trainer[S, B]) runOptions(s *session[S, B]) trainer.Options {
	c := &t.Config
	o := t.evalOptions()
	o.Epochs, o.MaxSteps = float64(c.NumEpochs), t.TotalSteps
	o.BatchSize, o.Accumulate = c.BatchSize, c.GradientAccumulationSteps
	o.Schedule, o.ScheduleSteps = lr.Constant{}, t.every
	o.Save, o.Log, o.Start, o.Callbacks = trainer.Never, trainer.Never, t.start(), []any{s}
	if t.saves() {
		o.Saver, o.Save = s, trainer.Every(c.SaveSteps.n, trainer.Update)
	}
	if isTrue(c.SaveEnabled) {
		o.Save = o.Save.AndEpochs(1)
	}
	if c.LogSteps.n > 0 {
		o.Log = trainer.Every(c.LogSteps.n, trainer.Update)
	}
	return o
}

// evalOptions are those of an evaluation by itself.
func (t *Trainer[S, B]) evalOptions() trainer.Options {
	return trainer.Options{
		EvalBatchSize: t.evalBatchSize(), Seed: t.seed(), Process: trainer.Process{World: 1}, Progress: io.Discard,
		Semantics: t.options.Rules.semantics(isTrue(t.Config.DataloaderShuffle)),
		Logger:    t.options.Logger, LogLevel: slog.LevelWarn,
	}
}

// saves reports whether the run has checkpoints.
func (t *Trainer[S, B]) saves() bool {
	return isTrue(t.Config.SaveEnabled) || t.options.Rules.SaveSwitchIgnored
}

// explain says in the words of this package why a run has ended.
func (t *Trainer[S, B]) explain(err error) error {
	var hook *trainer.HookError
	stopped, ok := errors.AsType[*trainer.InterruptedError](err)
	switch {
	case ok:
		then := "ResumeFromCheckpoint continues there"
		if stopped.Checkpoint == "" {
			then = "not saved: " + stopped.Unsaved
		}
		if !t.saves() {
			then = "not saved: SaveEnabled is false"
		}
		return fmt.Errorf("hezar: stopped after batch %d of %d; %s: %w", t.State.GlobalStep, t.TotalSteps, then,
			stopped.Err)
	case errors.As(err, &hook):
		return hook.Err
	case errors.Is(err, trainer.ErrOtherRun):
		return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
	}
	return err
}
