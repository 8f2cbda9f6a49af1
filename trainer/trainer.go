package trainer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/gotrainer/gotrainer/data"
)

// Trainer runs the training loop over a [Step]: S is a sample of the data sets, B a batch.
type Trainer[S, B any] struct {
	step    Step[S, B]
	options Options // every default filled in
	hooks   *hooks
	running sync.Mutex
}

// New checks the options and makes a trainer.
func New[S, B any](step Step[S, B], o Options) (*Trainer[S, B], error) {
	if step == nil {
		return nil, errors.New("trainer: New needs a step, got nil")
	}
	o, err := o.resolved(step)
	if err != nil {
		return nil, err
	}
	if err := o.checkStep(step); err != nil {
		return nil, err
	}
	t := &Trainer[S, B]{step: step, options: o}
	if t.hooks, err = sortHooks(o.Callbacks); err != nil {
		return nil, err
	}
	f := &fit[S, B]{t: t, o: o}
	f.newRun()
	return t, call(f.run, t.hooks.initEnd, "InitEnd", func(h InitEndHook) error { return h.InitEnd(f.run) })
}

// Result tells how a run ended.
type Result struct {
	GlobalStep int
	Epoch      float64
	TrainLoss  float64 // mean over the updates
	Metrics    Logs    // the last row of the log: train_loss and the speeds
	Best       Best    // the best evaluation; its Metric is empty if there was none
	Checkpoint string  // the newest checkpoint; empty if none was written
	StopReason string  // why a hook stopped the run; empty if it went to its end
	History    []Logs  // the whole log, that of the sessions before a resume too
	Warnings   []string
}

// Fit trains on the samples of train and evaluates on those of valid, which may be nil.
//
// When ctx is cancelled the update at hand is finished and a checkpoint written; the error is an [*InterruptedError], for which
// errors.Is(err, context.Canceled) holds. What a hook or the step returns comes back as a [*HookError] or [*StepError].
func (t *Trainer[S, B]) Fit(ctx context.Context, train, valid data.Dataset[S]) (*Result, error) {
	if !t.running.TryLock() {
		return nil, errBusy
	}
	defer t.running.Unlock()
	runtime.LockOSThread() // the step's library keeps its modes by thread
	defer runtime.UnlockOSThread()

	f := &fit[S, B]{t: t, o: t.options, ctx: ctx, hooks: t.hooks}
	f.newRun()
	defer f.close()
	err := f.guard(func() error {
		if err := f.prepare(train, valid); err != nil {
			return err
		}
		return f.loop()
	})
	if err != nil {
		for _, h := range f.hooks.fail {
			h.TrainFailed(f.run, err)
		}
		return nil, err
	}
	return f.result(), nil
}

// Evaluate evaluates once on the samples of valid and returns the numbers by their bare names: "loss", "accuracy". It writes no files;
// the hooks EvalStep, AfterLog and AfterEval are called.
func (t *Trainer[S, B]) Evaluate(ctx context.Context, valid data.Dataset[S]) (Metrics, error) {
	if !t.running.TryLock() {
		return nil, errBusy
	}
	defer t.running.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	f := &fit[S, B]{t: t, o: t.options, ctx: ctx, hooks: t.hooks}
	f.newRun()
	var metrics Metrics
	err := f.guard(func() error {
		loader, err := f.evalLoader(valid)
		if err != nil {
			return err
		}
		f.valid = loader
		f.run.Info.EvalSamples, f.run.Info.EvalBatches = valid.Len(), loader.Len()
		metrics, _, err = f.evaluate()
		return err
	})
	var interrupted *InterruptedError
	if errors.As(err, &interrupted) { // nothing was trained, so there is nothing to say about saving
		return nil, fmt.Errorf("trainer: evaluation interrupted: %w", interrupted.Err)
	}
	return metrics, err
}

var errBusy = errors.New("trainer: Fit or Evaluate of this trainer is running already; a trainer does one thing at a time")
