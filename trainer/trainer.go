package trainer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/gotrainer/gotrainer/data"
)

// Trainer runs the training loop over a [Step]: S is a sample of the data sets, B a batch.
type Trainer[S, B any] struct {
	step    Step[S, B]
	options Options // every default filled in
	hooks   *hooks
	running sync.Mutex
	last    *fit[S, B] // the run or evaluation before; nil: none yet
	trained bool       // the step has trained before
	joined  bool       // and it has joined the group
}

// New checks the options and makes a trainer.
func New[S, B any](step Step[S, B], o Options) (*Trainer[S, B], error) {
	if step == nil {
		return nil, errors.New("trainer: New needs a step, got nil")
	}
	can := step.About()
	o, err := o.resolved(can)
	if err != nil {
		return nil, err
	}
	if err := o.checkStep(step, can); err != nil {
		return nil, err
	}
	if err := checkGroup[B](&o, step, can); err != nil {
		return nil, err
	}
	t := &Trainer[S, B]{step: step, options: o}
	if t.hooks, err = sortHooks(o.Callbacks); err != nil {
		return nil, err
	}
	if err := t.checkSplit(); err != nil {
		return nil, err
	}
	f := &fit[S, B]{t: t, o: o}
	f.newRun()
	if o.Semantics.SeedOnce {
		if err := f.guard(func() error { return f.seed(SeedOptions{}) }); err != nil {
			return nil, err
		}
	}
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

// Fit trains on the samples of train and evaluates on those of valid, which may be nil, a data set
// or several ([EvalSets]).
//
// When ctx is cancelled the update at hand is finished and a checkpoint written; the error is an
// [*InterruptedError], for which errors.Is(err, context.Canceled) holds. What a hook or the step
// returns comes back as a [*HookError] or [*StepError].
//
// A second Fit goes on with the weights and with the moments of the optimizer; its plan, schedule,
// counts and log begin anew.
func (t *Trainer[S, B]) Fit(ctx context.Context, train, valid data.Dataset[S]) (*Result, error) {
	return t.fit(ctx, func(f *fit[S, B]) error { return f.prepareData(train, valid) })
}

// fit runs once; source makes the loaders and the plan.
func (t *Trainer[S, B]) fit(ctx context.Context, source func(*fit[S, B]) error) (*Result, error) {
	unlock, err := t.begin()
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() {
		if t.last != nil {
			_ = t.last.close() // the lock of the folder goes with the process at the latest
		}
	}()
	if t.options.AutoFindBatchSize {
		err = t.fitShrinking(ctx, source)
	} else {
		t.last = &fit[S, B]{t: t, o: t.options, ctx: ctx, hooks: t.hooks}
		err = t.last.once(source)
	}
	f := t.last
	if err != nil {
		for _, h := range f.hooks.fail {
			f.show()
			h.TrainFailed(f.run, err)
		}
		return nil, err
	}
	return f.result(), nil
}

// once runs from the begin to the end, with a panic of the step's library as an error.
func (f *fit[S, B]) once(source func(*fit[S, B]) error) error {
	f.newRun()
	return f.guard(func() error {
		if err := f.prepare(source); err != nil {
			return err
		}
		return f.loop.run(f)
	})
}

// begin takes the trainer and the thread, since the step's library keeps its modes by thread.
func (t *Trainer[S, B]) begin() (unlock func(), err error) {
	if !t.running.TryLock() {
		return nil, errBusy
	}
	runtime.LockOSThread()
	return func() {
		runtime.UnlockOSThread()
		t.running.Unlock()
	}, nil
}

// Evaluate evaluates once on the samples of valid and returns the numbers by their bare names:
// "loss", "accuracy"; of several sets with the name of the set before them: "matched_loss". It
// writes no files. The row of its log goes on from that of the run before; a Fit after it begins a
// new log. The hooks EvalStep, AfterLog and AfterEval are called.
func (t *Trainer[S, B]) Evaluate(ctx context.Context, valid data.Dataset[S]) (Metrics, error) {
	m, _, err := t.evaluate(ctx, valid, "eval")
	return m, err
}

// EvaluateAs is [Trainer.Evaluate] with a prefix of its own, and returns what is logged: with the
// prefix "final" the names are "final_loss", "final_runtime" and so on; "epoch" is among them.
func (t *Trainer[S, B]) EvaluateAs(ctx context.Context, valid data.Dataset[S], prefix string) (Logs, error) {
	_, row, err := t.evaluate(ctx, valid, prefix)
	return row, err
}

func (t *Trainer[S, B]) evaluate(ctx context.Context, valid data.Dataset[S], prefix string) (m Metrics, row Logs,
	err error) {
	err = t.alone(ctx, valid, prefix, false, func(f *fit[S, B]) (err error) {
		m, err = f.evaluate(false)
		row = f.evaluated
		row["epoch"] = f.loop.Progress
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return m, row, nil
}

// Prediction is the outcome of [Trainer.Predict].
type Prediction struct {
	Metrics Logs // with the prefix: "test_loss", "test_accuracy", "test_runtime"
	Samples int  // of the set
}

// Predict runs over a test set once, with Evaluation.Predict set so that the step keeps its
// predictions, which are had from the step. The prefix stands before the names of the numbers;
// empty means "test". Nothing is logged. The hooks EvalStep and AfterPredict are called.
func (t *Trainer[S, B]) Predict(ctx context.Context, test data.Dataset[S], prefix string) (*Prediction, error) {
	if prefix == "" {
		prefix = "test"
	}
	if _, several := test.(EvalSets[S]); several {
		return nil, errors.New("trainer: Predict takes one set at a time, since a step keeps the predictions of one")
	}
	var p *Prediction
	err := t.alone(ctx, test, prefix, true, func(f *fit[S, B]) error {
		e := &f.evals[0]
		m, row, err := f.evaluateSet(e, true)
		if err != nil {
			return err
		}
		p = &Prediction{Metrics: row, Samples: e.rows}
		err = fire(f, f.hooks.predict, "AfterPredict", func(h PredictHook, r *Run) error {
			return h.AfterPredict(r, m)
		})
		f.run.Evaluation = ""
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// alone runs an evaluation outside of a run.
func (t *Trainer[S, B]) alone(ctx context.Context, set data.Dataset[S], prefix string, predict bool,
	body func(*fit[S, B]) error) error {
	if prefix == "" {
		return errors.New(`trainer: the prefix of an evaluation is empty; "eval" is the usual one`)
	}
	unlock, err := t.begin()
	if err != nil {
		return err
	}
	defer unlock()
	f := &fit[S, B]{t: t, o: t.options, ctx: ctx, hooks: t.hooks}
	f.newRun()
	if t.last != nil {
		f.goOn(t.last)
	}
	err = f.guard(func() error {
		if f.evals, err = f.evaluations(set, prefix, predict); err != nil {
			return err
		}
		if err := f.joinToEvaluate(); err != nil {
			return err
		}
		f.countEvals()
		return body(f)
	})
	t.last = f
	f.loop.EvalSet = 0
	var interrupted *InterruptedError
	if errors.As(err, &interrupted) { // nothing was trained, so there is nothing to say about saving
		return fmt.Errorf("trainer: evaluation interrupted: %w", interrupted.Err)
	}
	return err
}

// goOn takes over where an earlier run ended, so that an evaluation after it is logged as of its
// last update.
func (f *fit[S, B]) goOn(last *fit[S, B]) {
	f.loop.position = last.loop.position
	f.loop.plan.maxSteps = last.loop.plan.maxSteps
	f.loop.flow = last.loop.flow
	f.tokens, f.startTokens, f.flops = last.tokens, last.startTokens, last.flops
	f.best, f.history, f.checkpoint = last.best, slices.Clip(last.history), last.checkpoint
	f.loop.EvalLoaderStarted, f.loop.EvalSet = false, 0
	f.loop.before = f.loop.position
	f.show()
}

// History returns the rows of the log: of the last Fit, and of the evaluations since.
func (t *Trainer[S, B]) History() []Logs {
	if t.last == nil {
		return nil
	}
	return slices.Clone(t.last.history)
}

var errBusy = errors.New("trainer: Fit or Evaluate of this trainer is running already; a trainer does one thing at a " +
	"time")
