package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// fit is one run of Fit or Evaluate: the runner that carries out what the text of the semantics
// tells, with the step, the loaders and the files.
type fit[S, B any] struct {
	t     *Trainer[S, B]
	o     Options
	ctx   context.Context
	hooks *hooks
	run   *Run
	loop  *loop
	judge judge

	pass      passes[B]         // over the training set
	batches   int               // of the training set, limited or not
	samples   []int             // of the batches in window
	trained   float64           // samples of this session
	evals     []evaluation[B]   // none without a validation set
	evaluated Logs              // of the evaluation at hand, under their logged names, the sets that are done
	pushes    *pushes           // nil without a Pusher
	again     bool              // a run before it ran out of memory
	begin     *snapshot         // with AutoFindBatchSize
	quietEval bool              // evaluations must not draw random numbers
	store     *checkpoint.Store // nil without an output folder

	asked  context.Context         // the caller's, where several processes train: ctx ends when they have agreed on it
	cancel context.CancelCauseFunc // ends ctx
	totals windowTotals            // of the window at hand, over all processes
	filter int                     // steps between the last row of the log and the window at hand
	// the model stays in the mode in which it is: see semantics.Rules.StayInEvalMode
	keepMode bool

	window []B  // the batches of the window at hand
	batch  any  // the batch at hand; nil between batches
	aside  bool // a hook has asked for the evaluation at hand
	losses losses

	peakRate        float64 // of the options, or of the checkpoint where the semantics say so
	rate            lr.Rate
	momentum        lr.Rate         // nil: the schedule leaves it alone
	controller      lr.Controller   // nil: the rate is planned
	controllerState json.RawMessage // of the checkpoint
	scheduleStep    int             // how often the rate has moved
	applied         bool            // the last update was not skipped
	firstRate       *float64        // overrides the rate of the first update after a resume
	lastRate        *float64        // of the last update
	gradNorm        *float64        // of the last update
	lossSum         float64         // since the last log, as far as the step has reported it
	lossTotal       float64         // of what was logged

	tokens, startTokens int64   // input tokens of the run, and those before this session
	flops               float64 // of the run

	best       Best
	history    []Logs
	stopReason string
	checkpoint string // the newest
	onlyModel  bool   // a checkpoint of SaveOnlyModel was resumed: no generator was put back
	// of the checkpoint that is resumed, where the semantics keep it in trainer_state.json; 0: ours
	stateBatchSize int
	warnings       []string
	nonFinite      bool // a warning of a loss that is no finite number was given
	progress       *progress
	start          time.Time
	final          Logs
}

func (f *fit[S, B]) newRun() {
	f.judge = newJudge(&f.o)
	f.loop = newLoop(plan{batches: 1, accumulate: 1, updatesPerEpoch: 1, stepsPerEpoch: 1}, flow{})
	f.start = time.Now()
	f.losses = losses{report: f.o.Semantics.LossReport}
	view := &loopView{history: &f.history, best: &f.best, better: f.judge.better, stopReason: &f.stopReason,
		evalKey: f.evalKey}
	if f.judge.track {
		view.bestMetric = f.judge.metric
	}
	view.batchLoss, view.losses, view.evaluate = f.batchLoss, &f.losses, f.evaluateAside
	view.limit, view.state = f.limitBatches, f.stateNow
	f.run = &Run{Info: f.info(), loop: view}
}

// batchLoss is Run.BatchLoss.
func (f *fit[S, B]) batchLoss() (BatchLoss, error) {
	step, ok := f.t.step.(SplitStep[B])
	if !ok {
		return BatchLoss{}, fmt.Errorf("trainer: Run.BatchLoss: %T is no trainer.SplitStep: %s", f.t.step,
			passOn("Forward, Backward and BatchLoss"))
	}
	if f.batch == nil {
		return BatchLoss{}, errors.New("trainer: Run.BatchLoss: there is no batch at hand: it may be called in " +
			"AfterForward, AfterBackward and EvalStep")
	}
	return step.BatchLoss()
}

func (f *fit[S, B]) evalKey() string {
	if f.loop.EvalSet >= len(f.evals) {
		return ""
	}
	return f.evals[f.loop.EvalSet].key
}

// guard runs f and turns a panic of the step's library into an error.
func (f *fit[S, B]) guard(body func() error) (err error) {
	defer recoverTorchError(&err)
	return body()
}

// close waits for uploads and lets go of the output folder.
func (f *fit[S, B]) close() error {
	if f.pushes != nil {
		f.pushes.wait()
	}
	f.pass, f.evals = nil, nil // the trainer keeps what the run has counted, not its data
	if f.store == nil {
		return nil
	}
	store := f.store
	f.store = nil
	return store.Close()
}

// stepContext is for the calls that make up an update: cancelling the run must not tear one.
func (f *fit[S, B]) stepContext() context.Context { return context.WithoutCancel(f.ctx) }

// stop ends the run at once if that is what the error of a hook means, and returns it otherwise.
func (f *fit[S, B]) stop(err error) error {
	var stop StopError
	if !errors.As(err, &stop) || f.loop.ending() {
		return err
	}
	if f.stopReason == "" {
		f.stopReason = stop.Error()
	}
	f.loop.abort(err)
	return fire(f, f.hooks.stop, "Stopped", func(h StopHook, r *Run) error { return h.Stopped(r, stop) })
}

// beginEpoch forgets what belongs to the epoch before, unless a resumed run enters in the middle of
// one.
func (f *fit[S, B]) beginEpoch() {
	if f.loop.Micro == 0 {
		f.losses.beginEpoch()
	}
	f.keepMode = false
}

// fetch makes the windows of an epoch ready from where the loop is. The batches of a window
// are all there before its first forward, since the step may want to count their items.
func (f *fit[S, B]) fetch(body func() bool) error {
	l := f.loop
	if l.idle >= idlePasses {
		return f.stepError("continue", errIdle(l))
	}
	if !l.LoaderStarted {
		if err := f.startLoader(true); err != nil {
			return err
		}
		l.LoaderStarted, l.before.LoaderStarted = true, true
	}
	f.window, f.samples = f.window[:0], f.samples[:0]
	for batch, err := range f.pass(f.ctx, l.Epoch, l.Micro) {
		if err != nil {
			if f.ctx.Err() != nil {
				return f.interrupt()
			}
			return f.stepError("load a batch", err)
		}
		f.window, f.samples = append(f.window, batch.Batch), append(f.samples, batch.Samples)
		if len(f.window) < l.window {
			continue
		}
		if f.several() {
			if stop, err := f.agree(); err != nil {
				return err
			} else if stop {
				return f.interrupt()
			}
		}
		if !f.tellWindow(body) || !l.nextWindow() {
			return nil
		}
	}
	if !l.plan.stream {
		return f.stepError("load a batch", fmt.Errorf("the loader ended after fewer than the %d batches of an epoch",
			l.plan.batches))
	}
	return f.endPass(body)
}

// tellWindow trains on the window that is ready.
func (f *fit[S, B]) tellWindow(body func() bool) bool {
	f.beginWindow()
	more := body()
	clear(f.window) // the loader and the step have let go of them; so must we
	f.window, f.samples = f.window[:0], f.samples[:0]
	return more
}

// endPass trains on what a stream had left, which may be nothing.
func (f *fit[S, B]) endPass(body func() bool) error {
	f.loop.fetched(len(f.window))
	if len(f.window) > 0 {
		f.tellWindow(body)
		return nil
	}
	if f.loop.Micro == 0 {
		if f.loop.GlobalStep == 0 && !f.o.Semantics.EndWithoutBatch {
			return errEmptyStream
		}
		f.warn("pass %d over the training data has no batch, so the run ends after %d of %d updates", f.loop.Epoch+1,
			f.loop.GlobalStep, f.loop.plan.maxSteps)
	}
	return nil
}

// around calls the hooks around the training of an epoch, the first one outermost.
func (f *fit[S, B]) around(train func() error) error {
	for _, h := range slices.Backward(f.hooks.aroundEpoch) {
		inner := train
		train = func() error {
			return fire(f, []AroundEpochHook{h}, "AroundEpoch", func(h AroundEpochHook, r *Run) error {
				return h.AroundEpoch(r, func() error {
					f.loop.Control = r.Control
					defer f.show()
					return inner()
				})
			})
		}
	}
	err := train()
	if err != nil && f.loop.ended() == nil {
		return f.stop(err)
	}
	return nil
}

// limitBatches is Run.LimitBatches.
func (f *fit[S, B]) limitBatches(n int) {
	if p := &f.loop.plan; !p.stream {
		p.batches = max(0, min(n, f.batches))
	}
}

// do carries out an action. A hook that ends the run ends it here; one that returns the error of
// the cancelled context where a run can be taken up again is interrupted, and told of the event
// again.
func (f *fit[S, B]) do(a action) error {
	err := f.carryOut(a)
	var hook *HookError
	if errors.As(err, &hook) && f.ctx.Err() != nil && slices.Contains(places, a) &&
		(errors.Is(err, f.ctx.Err()) || errors.Is(err, context.Cause(f.ctx))) {
		return f.interrupt()
	}
	if err != nil {
		return f.stop(err)
	}
	return nil
}

func (f *fit[S, B]) carryOut(a action) error {
	h := f.hooks
	switch a {
	case trainBegin:
		return fire(f, h.trainBegin, "TrainBegin", TrainBeginHook.TrainBegin)
	case evalOnStart:
		return f.evaluateOnStart()
	case epochBegin:
		if f.ctx.Err() != nil {
			return f.interrupt()
		}
		f.beginEpoch()
		return fire(f, h.epochBegin, "EpochBegin", EpochBeginHook.EpochBegin)
	case stepBegin:
		return fire(f, h.stepBegin, "StepBegin", StepBeginHook.StepBegin)
	case train:
		return f.trainBatch()
	case substepEnd:
		return fire(f, h.substepEnd, "SubstepEnd", SubstepEndHook.SubstepEnd)
	case clip:
		return f.clip()
	case beforeUpdate:
		return fire(f, h.beforeUpdate, "BeforeUpdate", BeforeUpdateHook.BeforeUpdate)
	case update:
		return f.update()
	case afterUpdate:
		return fire(f, h.afterUpdate, "AfterUpdate", AfterUpdateHook.AfterUpdate)
	case schedule, scheduleBySteps:
		return f.moveRate()
	case stepEnd:
		return fire(f, h.stepEnd, "StepEnd", StepEndHook.StepEnd)
	case stepLog, epochLog:
		return f.logLoss()
	case stepEvaluate, epochEvaluate:
		return f.evaluateNow(true)
	case stepSave, epochSave, finalSave:
		return f.save()
	case epochEnd:
		return fire(f, h.epochEnd, "EpochEnd", EpochEndHook.EpochEnd)
	case epochDone:
		return fire(f, h.epochDone, "EpochDone", EpochDoneHook.EpochDone)
	case finalLog:
		return f.logEnd()
	case trainEnd:
		return f.end()
	default:
		panic(fmt.Sprintf("trainer: unknown action %q", a)) // unreachable: no text tells another
	}
}

// evaluateOnStart evaluates before the first update. After a resume the generator is where training
// continues, and the extra evaluation must not draw from it.
func (f *fit[S, B]) evaluateOnStart() error {
	f.quietEval = f.loop.resumed && !f.onlyModel && f.o.Semantics.EvalOnStartAfterResume
	defer func() { f.quietEval = false }()
	return f.evaluateNow(false)
}

// fire calls the hooks of an event, which see the loop as it is now and may change the decisions.
func fire[S, B, H any](f *fit[S, B], list []H, event string, method func(H, *Run) error) error {
	if len(list) == 0 {
		return nil
	}
	f.show()
	err := call(f.run, list, event, func(h H) error { return method(h, f.run) })
	f.loop.Control = f.run.Control
	return err
}

// show brings the hooks' view up to date.
func (f *fit[S, B]) show() {
	f.run.GlobalStep, f.run.Epoch, f.run.MaxSteps, f.run.Control = f.loop.GlobalStep, f.loop.Progress,
		f.loop.plan.maxSteps,
		f.loop.Control
	f.run.Updates, f.run.EpochIndex, f.run.Batches = f.loop.Updates, f.loop.Epoch, f.loop.Micro
	f.run.loop.batch = f.batch
}

func (f *fit[S, B]) stepError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &StepError{Op: op, GlobalStep: f.loop.GlobalStep, Epoch: f.loop.Progress, Err: err}
}

// interrupt ends a cancelled run where it can be taken up again: with the action at hand still to
// be done.
func (f *fit[S, B]) interrupt() error {
	e := &InterruptedError{GlobalStep: f.loop.GlobalStep, Epoch: f.loop.Progress, Err: f.ctx.Err()}
	if cause := context.Cause(f.ctx); cause != nil && !errors.Is(cause, e.Err) {
		e.Err = fmt.Errorf("%w: %w", e.Err, cause)
	}
	f.loop.position = f.loop.before
	switch {
	case !f.saves():
		e.Unsaved = "Options.OutputDir is empty"
	case f.o.Save.kind == never:
		e.Unsaved = "Options.Save is Never"
	case f.loop.GlobalStep == 0:
		e.Unsaved = "there has been no update yet"
	case f.loop.LastSaved == f.loop.GlobalStep && f.checkpoint != "":
		e.Checkpoint = f.checkpoint // what has been done since will be done again, with the same outcome
	default:
		if err := f.save(); err != nil {
			e.Unsaved = "saving failed"
			e.Err = fmt.Errorf("%w; %w", e.Err, err)
			return e
		}
		e.Checkpoint = f.checkpoint
	}
	return e
}

// warn tells of something that the user should know and that does not end the run: at once, or in
// the header if that is still to come.
func (f *fit[S, B]) warn(format string, args ...any) {
	f.note(format, args...)
	if f.progress != nil {
		f.progress.warn(f.warnings[len(f.warnings)-1])
	}
}

// note is a warning for the next header.
func (f *fit[S, B]) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.warnings = append(f.warnings, text)
	f.o.Logger.Warn(text)
}
