package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/data"
)

// Trainer runs the training loop over a [Step]: S is a sample of the data sets, B a batch.
type Trainer[S, B any] struct {
	core
	typed Step[S, B]
}

// core is a [Trainer] without its type parameters: see untyped.go.
type core struct {
	step    untypedStep
	options Options // every default filled in
	running sync.Mutex
	last    *runner // the previous run or evaluation; nil: none yet
	trained bool    // the step has trained before
	joined  bool    // the step has joined the group

	warnings []string // about the options, for each run
}

// New checks the options and makes a trainer.
func New[S, B any](step Step[S, B], o Options) (*Trainer[S, B], error) {
	if step == nil {
		return nil, errors.New("trainer: New needs a step, got nil")
	}
	t := &Trainer[S, B]{core: core{step: newUntypedStep(step)}, typed: step}
	if err := t.begin(o); err != nil {
		return nil, err
	}
	return t, nil
}

// begin checks the options, seeds the step if the semantics do that here, and calls InitEnd.
func (t *core) begin(o Options) error {
	can := t.step.About()
	warnings := o.ineffective()
	o, err := o.resolved(can)
	if err != nil {
		return &refusedOptions{err}
	}
	t.options, t.warnings = o, warnings
	if err := cmp.Or(o.checkStep(t.step.given, can), o.checkGroup(&t.step, can), o.checkTransformers(t.step.given),
		o.checkCallbacks(), o.checkDivide(), t.checkSplit()); err != nil {
		return &refusedOptions{err}
	}
	if t.step.group == nil {
		if text := o.trainsAlone(t.step.given); text != "" {
			t.warnings = append(t.warnings, text)
		}
	}
	r := t.newRunner(context.Background(), o)
	if o.Semantics.SeedOnce {
		if err := guard(func() error { return r.seed(SeedOptions{}) }); err != nil {
			return err
		}
	}
	return call(r.run, r.hooks, "InitEnd", func(h initEndHook) error { return h.InitEnd(r.run) })
}

// Result says how a run ended.
type Result struct {
	GlobalStep int
	Epoch      float64
	TrainLoss  float64 // mean over the updates
	Metrics    Logs    // the last row of the log: train_loss and the speeds
	Best       Best    // the best evaluation; its Metric is empty if there was none
	Checkpoint string  // the newest checkpoint; empty if none was written
	// SaveWaited is how long the run waited for checkpoints that were being written, with
	// Options.AsyncSave. A long time means that saves are requested faster than the disk can write
	// them.
	SaveWaited time.Duration
	StopReason string // why a hook stopped the run; empty if it ran to its end
	History    []Logs // the whole log, including that of the sessions before a resume
	Warnings   []string
}

// Fit trains on the samples of train and evaluates on those of valid, which may be nil, a data set
// or several ([EvalSets]).
//
// When ctx is cancelled, Fit finishes the current update, writes a checkpoint and returns an
// [*InterruptedError], for which errors.Is(err, context.Canceled) holds. Errors of a hook or of the
// step are returned as a [*HookError] or a [*StepError]. If the run has begun, the Result is
// returned even with an error. It says how far the run came and has its log and its newest
// checkpoint.
//
// A second Fit continues with the weights and the optimizer's moments; its plan, schedule, counts
// and log start over.
func (t *Trainer[S, B]) Fit(ctx context.Context, train, valid data.Dataset[S]) (*Result, error) {
	return t.fit(ctx, func(r *runner) error { return r.prepareData(t.dataset(train), t.validation(valid)) })
}

// fit runs once; source makes the loaders and the plan.
func (t *core) fit(ctx context.Context, source func(*runner) error) (result *Result, err error) {
	err = t.within(func() (err error) {
		result, err = t.fitWithin(ctx, source)
		return err
	})
	return result, err
}

// within calls body, a run or an evaluation, with the settings of the step's library for this
// thread.
func (t *core) within(body func() error) error {
	unlock, err := t.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return guard(func() error { return t.step.Around(body) })
}

func (t *core) fitWithin(ctx context.Context, source func(*runner) error) (_ *Result, err error) {
	defer func() {
		if t.last != nil {
			_ = t.last.close() // if it fails, the lock of the folder lasts at most as long as the process
		}
	}()
	if t.options.AutoFindBatchSize {
		err = t.fitShrinking(ctx, source)
	} else {
		t.last = t.newRunner(ctx, t.options)
		err = t.last.once(source)
	}
	r := t.last
	if err != nil {
		for _, c := range r.hooks {
			if h, ok := c.(trainFailedHook); ok {
				r.show()
				h.TrainFailed(r.run, err)
			}
		}
		if !r.begun {
			return nil, err
		}
		return r.result(), err
	}
	return r.result(), r.saver.failed
}

// lock locks the trainer and the OS thread, since the step's library keeps its modes per thread.
func (t *core) lock() (unlock func(), err error) {
	if !t.running.TryLock() {
		return nil, errBusy
	}
	runtime.LockOSThread()
	return func() {
		runtime.UnlockOSThread()
		t.running.Unlock()
	}, nil
}

// Evaluate evaluates the samples of valid once and returns the numbers by their bare names: "loss",
// "accuracy". With several sets, the names are prefixed with that of the set: "matched_loss". It
// writes no files. Its row of the log is added to that of the run before; a later Fit starts a new
// log. The hooks EvalStep, AfterLog and AfterEval are called.
func (t *Trainer[S, B]) Evaluate(ctx context.Context, valid data.Dataset[S]) (Metrics, error) {
	m, _, err := t.evaluate(ctx, t.validation(valid), "eval")
	return m, err
}

// EvaluateAs is [Trainer.Evaluate] with a given prefix, and returns what is logged. With the prefix
// "final" the names are "final_loss", "final_runtime" and so on; "epoch" is included.
func (t *Trainer[S, B]) EvaluateAs(ctx context.Context, valid data.Dataset[S], prefix string) (Logs, error) {
	_, row, err := t.evaluate(ctx, t.validation(valid), prefix)
	return row, err
}

func (t *core) evaluate(ctx context.Context, valid *validation, prefix string) (m Metrics, row Logs, err error) {
	err = t.alone(ctx, valid, prefix, false, func(r *runner) (err error) {
		m, err = r.eval.evaluate(false)
		row = r.eval.evaluated
		row["epoch"] = r.loop.Progress
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return m, row, nil
}

// Prediction is the result of [Trainer.Predict].
type Prediction struct {
	Metrics Logs // with the prefix: "test_loss", "test_accuracy", "test_runtime"
	Samples int  // samples in the set
}

// Predict runs the model over a test set once. Evaluation.Predict is set, so the step keeps its
// predictions; get them from the step. The names of the numbers are prefixed with prefix; empty
// means "test". Nothing is logged. The hooks EvalStep and AfterPredict are called.
func (t *Trainer[S, B]) Predict(ctx context.Context, test data.Dataset[S], prefix string) (*Prediction, error) {
	return t.predict(ctx, t.validation(test), prefix)
}

func (t *core) predict(ctx context.Context, test *validation, prefix string) (*Prediction, error) {
	if prefix == "" {
		prefix = "test"
	}
	if test != nil && test.several {
		return nil, errors.New("trainer: Predict takes one set at a time, since a step keeps the predictions of one")
	}
	var p *Prediction
	err := t.alone(ctx, test, prefix, true, func(r *runner) error {
		e := &r.eval.sets[0]
		m, row, err := r.eval.evaluateSet(e, true)
		if err != nil {
			return err
		}
		p = &Prediction{Metrics: row, Samples: e.rows}
		err = fireWith(r.session, "AfterPredict", afterPredictHook.AfterPredict, m)
		r.run.Evaluation = ""
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// alone runs an evaluation outside of a run.
func (t *core) alone(ctx context.Context, set *validation, prefix string, predict bool,
	body func(*runner) error) error {
	if prefix == "" {
		return errors.New(`trainer: the prefix of an evaluation is empty; "eval" is the usual one`)
	}
	var r *runner
	err := t.within(func() (err error) {
		r = t.newRunner(ctx, t.options)
		if t.last != nil {
			r.continueFrom(t.last)
		}
		defer func() { t.last, r.loop.EvalSet = r, 0 }()
		if r.eval.sets, err = r.eval.open(set, prefix, predict); err != nil {
			return err
		}
		if err := r.joinToEvaluate(); err != nil {
			return err
		}
		r.eval.count()
		return body(r)
	})
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("trainer: evaluation interrupted: %w", r.cancelled())
	}
	return err
}

// continueFrom takes over the state of an earlier run, so that a later evaluation is logged under
// its last update.
func (r *runner) continueFrom(last *runner) {
	r.loop.position = last.loop.position
	r.loop.plan, r.loop.flow = last.loop.plan, last.loop.flow
	r.begun, r.stateBatchSize = last.begun, last.stateBatchSize
	r.tokens, r.startTokens, r.flops = last.tokens, last.startTokens, last.flops
	r.best, r.history = last.best, slices.Clip(last.history)
	r.saver.checkpoint, r.saver.loaded = last.saver.checkpoint, last.saver.loaded
	r.loop.EvalLoaderStarted, r.loop.EvalSet = false, 0
	r.loop.before = r.loop.position
	r.show()
}

// History returns the rows of the log: those of the last Fit and of the evaluations since.
func (t *core) History() []Logs {
	if t.last == nil {
		return nil
	}
	return slices.Clone(t.last.history)
}

var errBusy = errors.New("trainer: Fit or Evaluate of this trainer is already running; a trainer does one thing at " +
	"a time")
