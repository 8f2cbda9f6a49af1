package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// fit is one run of Fit or Evaluate. It does what the machine says, with the step, the loaders and
// the files.
type fit[S, B any] struct {
	t     *Trainer[S, B]
	o     Options
	ctx   context.Context
	hooks *hooks
	run   *Run
	m     *machine
	judge judge

	pass      passes[B]       // over the training set
	samples   []int           // of the batches in window
	trained   float64         // samples of this session
	evals     []evaluation[B] // none without a validation set
	evaluated Logs            // of the evaluation at hand, under their logged names, the sets that are done
	// where only saved evaluations are compared, the one that is compared when its step is saved
	judged    Logs
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

	before position // the machine before the action at hand: where an interrupted run goes on
	window []B      // the batches of the window at hand
	batch  any      // the batch at hand; nil between batches
	aside  bool     // a hook has asked for the evaluation at hand
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
	f.m = newMachine(plan{batches: 1, accumulate: 1, updatesPerEpoch: 1, stepsPerEpoch: 1}, flow{})
	f.start = time.Now()
	f.losses = losses{report: f.o.Semantics.LossReport, accumulate: f.o.Accumulate}
	view := &loopView{history: &f.history, best: &f.best, better: f.judge.better, stopReason: &f.stopReason,
		evalKey: f.evalKey}
	if f.judge.track {
		view.bestMetric = f.judge.metric
	}
	view.batchLoss, view.lossMean, view.evaluate = f.batchLoss, f.losses.value, f.evaluateAside
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
	if f.m.EvalSet >= len(f.evals) {
		return ""
	}
	return f.evals[f.m.EvalSet].key
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

// loop does what the machine says until nothing is left.
func (f *fit[S, B]) loop() error {
	for a := f.next(); a != doDone; {
		var err error
		if a == doFetch {
			a, err = f.epoch()
		} else {
			err = f.do(a)
			if err == nil {
				a = f.next()
			}
		}
		if err != nil {
			if err := f.stop(err); err != nil {
				return err
			}
			a = f.next()
		}
	}
	return nil
}

// stop ends the run at once if that is what the error of a hook means, and returns it otherwise.
func (f *fit[S, B]) stop(err error) error {
	var stop StopError
	if !errors.As(err, &stop) || f.m.ending() {
		return err
	}
	if f.stopReason == "" {
		f.stopReason = stop.Error()
	}
	f.m.abort()
	return fire(f, f.hooks.stop, "Stopped", func(h StopHook, r *Run) error { return h.Stopped(r, stop) })
}

// beginEpoch forgets what belongs to the epoch before, unless a resumed run enters in the middle of
// one.
func (f *fit[S, B]) beginEpoch() {
	if f.m.Micro == 0 {
		f.losses.beginEpoch()
	}
	f.keepMode = false
}

func (f *fit[S, B]) next() action {
	f.before = f.m.position
	return f.m.next()
}

// epoch trains on the batches of an epoch from where the machine stands, and returns the first
// action that is none of a window. A window's batches are all there before its first forward, since
// the step may want to count their items.
func (f *fit[S, B]) epoch() (action, error) {
	if f.m.idle >= idlePasses {
		return 0, f.stepError("go on", errIdle(f.m))
	}
	if !f.m.LoaderStarted {
		if err := f.startLoader(true); err != nil {
			return 0, err
		}
		f.m.LoaderStarted, f.before.LoaderStarted = true, true
	}
	f.window, f.samples = f.window[:0], f.samples[:0]
	for batch, err := range f.pass(f.ctx, f.m.Epoch, f.m.Micro) {
		if err != nil {
			if f.ctx.Err() != nil {
				return 0, f.interrupt()
			}
			return 0, f.stepError("load a batch", err)
		}
		f.window, f.samples = append(f.window, batch.Batch), append(f.samples, batch.Samples)
		if len(f.window) < f.m.window {
			continue
		}
		if f.several() {
			if stop, err := f.agree(); err != nil {
				return 0, err
			} else if stop {
				return 0, f.interrupt()
			}
		}
		a, err := f.trainWindow()
		clear(f.window) // the loader and the step have let go of them; so must we
		f.window, f.samples = f.window[:0], f.samples[:0]
		if err != nil || a != doFetch {
			return a, err
		}
	}
	if !f.m.plan.stream {
		return 0, f.stepError("load a batch", fmt.Errorf("the loader ended after fewer than the %d batches of an epoch",
			f.m.plan.batches))
	}
	return f.endPass()
}

// endPass trains on what a stream had left, which may be nothing.
func (f *fit[S, B]) endPass() (action, error) {
	for {
		if f.m.fetched(len(f.window)); len(f.window) == 0 && f.m.Micro == 0 {
			if f.m.GlobalStep == 0 && !f.o.Semantics.EndWithoutBatch {
				return 0, errEmptyStream
			}
			f.warn("pass %d over the training data has no batch, so the run ends after %d of %d updates", f.m.Epoch+1,
				f.m.GlobalStep, f.m.plan.maxSteps)
		}
		a, err := f.trainWindow()
		clear(f.window)
		f.window, f.samples = f.window[:0], f.samples[:0]
		if err != nil || a != doFetch {
			return a, err
		}
	}
}

// do carries out one action.
func (f *fit[S, B]) do(a action) error {
	h := f.hooks
	switch a {
	case doTrainBegin:
		return fire(f, h.trainBegin, "TrainBegin", TrainBeginHook.TrainBegin)
	case doEpochBegin:
		if f.ctx.Err() != nil {
			return f.interrupt()
		}
		f.beginEpoch()
		return fire(f, h.epochBegin, "EpochBegin", EpochBeginHook.EpochBegin)
	case doStepBegin:
		return fire(f, h.stepBegin, "StepBegin", StepBeginHook.StepBegin)
	case doTrain:
		return f.trainBatch()
	case doSubstepEnd:
		return fire(f, h.substepEnd, "SubstepEnd", SubstepEndHook.SubstepEnd)
	case doBeforeUpdate:
		if !f.o.Semantics.ClipEveryBatch {
			if err := f.clip(); err != nil {
				return err
			}
		}
		return fire(f, h.beforeUpdate, "BeforeUpdate", BeforeUpdateHook.BeforeUpdate)
	case doUpdate:
		return f.update()
	case doAfterUpdate:
		return fire(f, h.afterUpdate, "AfterUpdate", AfterUpdateHook.AfterUpdate)
	case doStepEnd:
		return f.stepEnd()
	case doLog:
		return f.logLoss()
	case doEvalOnStart, doEvaluate:
		// After a resume the generator stands where training goes on; the extra evaluation must not
		// draw from it.
		f.quietEval = a == doEvalOnStart && f.m.resumed && !f.onlyModel && f.o.Semantics.EvalOnStartAfterResume
		err := f.evaluateNow(a == doEvaluate)
		f.quietEval = false
		return err
	case doSave:
		return f.save()
	case doEpochEnd:
		return fire(f, h.epochEnd, "EpochEnd", EpochEndHook.EpochEnd)
	case doEpochDone:
		return fire(f, h.epochDone, "EpochDone", EpochDoneHook.EpochDone)
	case doFinalLog:
		return f.logEnd()
	case doTrainEnd:
		return f.end()
	default:
		panic(fmt.Sprintf("trainer: unknown action %d", a)) // unreachable: machine.next has no other
	}
}

// fire calls the hooks of an event, which see the loop as it is now and may change the decisions.
func fire[S, B, H any](f *fit[S, B], list []H, event string, method func(H, *Run) error) error {
	if len(list) == 0 {
		return nil
	}
	f.show()
	err := call(f.run, list, event, func(h H) error { return method(h, f.run) })
	f.m.Control = f.run.Control
	return err
}

// show brings the hooks' view up to date.
func (f *fit[S, B]) show() {
	f.run.GlobalStep, f.run.Epoch, f.run.MaxSteps, f.run.Control = f.m.GlobalStep, f.m.Progress, f.m.plan.maxSteps,
		f.m.Control
	f.run.Updates, f.run.EpochIndex, f.run.Batches = f.m.Updates, f.m.Epoch, f.m.Micro
	f.run.loop.batch = f.batch
}

func (f *fit[S, B]) stepError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &StepError{Op: op, GlobalStep: f.m.GlobalStep, Epoch: f.m.Progress, Err: err}
}

// interrupt ends a cancelled run where it can be taken up again: with the action at hand still to
// be done.
func (f *fit[S, B]) interrupt() error {
	e := &InterruptedError{GlobalStep: f.m.GlobalStep, Epoch: f.m.Progress, Err: f.ctx.Err()}
	if cause := context.Cause(f.ctx); cause != nil && !errors.Is(cause, e.Err) {
		e.Err = fmt.Errorf("%w: %w", e.Err, cause)
	}
	f.m.position = f.before
	switch {
	case !f.saves():
		e.Unsaved = "Options.OutputDir is empty"
	case f.o.Save.kind == never:
		e.Unsaved = "Options.Save is Never"
	case f.m.GlobalStep == 0:
		e.Unsaved = "there has been no update yet"
	case f.m.LastSaved == f.m.GlobalStep && f.checkpoint != "":
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
