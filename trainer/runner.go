package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// runner is one run of Fit, or one evaluation outside of a run. It carries out the actions of the
// loop, with the help of its parts.
type runner struct {
	*session
	t     *core
	eval  evaluator
	saver saver
	rates rates

	pass        passes            // over the training set
	batches     int               // in the training set, before any limit
	order       string            // of the training samples, as text: see settingsText
	divider     divider           // for DivideOnOutOfMemory
	fingerprint map[string]string // of the training set, for the configuration
	// indices of the samples in a batch of an epoch; nil: the loader cannot tell
	indices  func(epoch, batch int) []int
	window   []any         // the batches of the current window
	samples  []int         // number of samples in each batch of the window
	totals   windowTotals  // size of the window over all processes
	recycler Recycler[any] // gets the batches of a window back after training; nil: none
	gathered int           // batches of the window whose gradients and losses the step has
	filter   int           // steps between the last row of the log and the window

	rollBacks map[string]int // number of returns to each checkpoint
	fused     bool           // About().Fused of the step
	begun     bool           // preparations succeeded, and the actions have begun
	begin     *string        // for AutoFindBatchSize: folder with the state of the step before the first update
	onlyModel bool           // resumed from a checkpoint of SaveOnlyModel, so no generator was restored
	// train_batch_size of the checkpoint resumed from, if the semantics keep it; 0: that of this
	// run
	stateBatchSize int
}

// newRunner returns a runner that has not begun.
func (t *core) newRunner(ctx context.Context, o Options) *runner {
	s := &session{step: t.step, o: o, ctx: ctx, stepCtx: context.WithoutCancel(ctx), hooks: o.Callbacks,
		start: time.Now(), loop: newLoop(plan{batches: 1, accumulate: 1, updatesPerEpoch: 1, stepsPerEpoch: 1},
			flow{}),
		record: record{losses: losses{report: o.Semantics.LossReport}}}
	r := &runner{session: s, t: t, fused: t.step.About().Fused}
	r.divider.parts = &r.parts
	r.parts.Store(1)
	r.eval = evaluator{session: s, bestMetric: newBestMetric(&o)}
	r.saver = saver{session: s, uploads: uploads{session: s}, states: r.states}
	s.run = &Run{Info: s.info(), loop: &loopView{record: &s.record, bestMetric: &r.eval.bestMetric, evalKey: r.eval.key,
		evaluate: r.eval.evaluateAside, batch: r.currentBatch, batchLoss: r.batchLoss, limit: r.limitBatches,
		state: r.stateNow, warn: s.warn}}
	return r
}

// once prepares and runs the loop. It returns a panic of the step's library as an error.
func (r *runner) once(source func(*runner) error) error {
	return guard(func() error {
		if err := r.prepare(source); err != nil {
			return err
		}
		r.begun = true
		err := r.loop.run(r)
		if r.several() {
			return err // settling needs all processes, and after a failure the others may be gone
		}
		if e := r.saver.settle(true); e != nil { // a save is still in progress only if the run has failed
			r.warn("%v", e)
		}
		return err
	})
}

// close waits for uploads and releases the output folder.
func (r *runner) close() error {
	r.saver.uploads.close()
	err := r.saver.release()
	r.pass, r.eval.sets = nil, nil // the trainer keeps the runner for its counts and log; its data can be freed
	if r.saver.store == nil {
		return err
	}
	store := r.saver.store
	r.saver.store = nil
	return errors.Join(err, store.Close())
}

// do carries out an action. A hook's StopError ends the run here. If a hook returns the error of
// the cancelled context at a point from which a run can be resumed, the run is interrupted, and the
// resumed run repeats the event. A panic of the step's library becomes an error here: if it unwound
// the loop into a hook around the epoch, and that hook recovered, the loop's iterators would never
// learn of it.
func (r *runner) do(a action) error {
	if err := guard(func() error { return r.carryOut(a) }); err != nil {
		return r.failed(a, err)
	}
	return nil
}

// failed decides what the error of an action does to the run.
func (r *runner) failed(a action, err error) error {
	var hook *HookError
	var bad *NonFiniteError
	switch {
	case errors.As(err, &bad):
		if err := r.saver.settle(true); err != nil {
			return errors.Join(bad, err)
		}
		bad.Checkpoint = r.saver.checkpoint
		if r.o.NonFinite == RollBackNonFinite {
			return r.rollBack(bad)
		}
		return bad
	case errors.Is(err, errInterrupted), errors.As(err, &hook) && r.ctx.Err() != nil && slices.Contains(resumePoints, a) &&
		r.loop.windowIsComplete() && (errors.Is(err, r.ctx.Err()) || errors.Is(err, context.Cause(r.ctx))):
		return r.interrupt()
	}
	return r.stop(err)
}

func (r *runner) carryOut(a action) error {
	switch a {
	case trainBegin:
		return fire(r.session, "TrainBegin", trainBeginHook.TrainBegin)
	case evalOnStart:
		return r.evaluateOnStart()
	case epochBegin:
		if r.ctx.Err() != nil {
			return errInterrupted
		}
		r.beginEpoch()
		return fire(r.session, "EpochBegin", epochBeginHook.EpochBegin)
	case stepBegin:
		return fire(r.session, "StepBegin", stepBeginHook.StepBegin)
	case train:
		return r.trainBatch()
	case substepEnd:
		return fire(r.session, "SubstepEnd", substepEndHook.SubstepEnd)
	case clip:
		return r.clip()
	case beforeUpdate:
		return fire(r.session, "BeforeUpdate", beforeUpdateHook.BeforeUpdate)
	case update:
		return r.update()
	case afterUpdate:
		return fire(r.session, "AfterUpdate", afterUpdateHook.AfterUpdate)
	case schedule, scheduleBySteps:
		return r.moveRate()
	case stepEnd:
		return r.endStep()
	case stepLog, epochLog:
		return r.logLoss()
	case stepEvaluate, epochEvaluate:
		return r.evaluateNow(true)
	case stepSave, epochSave:
		return r.saver.save(r.o.AsyncSave)
	case finalSave:
		if err := r.discardWindow(); err != nil {
			return err
		}
		return r.saver.save(false)
	case epochEnd:
		return fire(r.session, "EpochEnd", epochEndHook.EpochEnd)
	case epochDone:
		return fire(r.session, "EpochDone", epochDoneHook.EpochDone)
	case finalLog:
		if err := r.discardWindow(); err != nil {
			return err
		}
		if err := r.saver.finish(); err != nil {
			return err
		}
		return r.logEnd()
	case trainEnd:
		if err := r.saver.end(); err != nil {
			return err
		}
		if err := fire(r.session, "TrainEnd", trainEndHook.TrainEnd); err != nil {
			return err
		}
		return r.saver.uploads.end(r.saver.final())
	default:
		panic(fmt.Sprintf("trainer: unknown action %q", a)) // unreachable: no loop has another action
	}
}

// around calls train inside the hooks that wrap an epoch; the first hook is the outermost.
func (r *runner) around(train func() error) error {
	for _, c := range slices.Backward(r.hooks) {
		if !has[aroundEpochHook](c) {
			continue
		}
		inner := train
		train = func() error {
			r.show()
			err := call(r.run, []any{c}, "AroundEpoch", func(h aroundEpochHook) error {
				return h.AroundEpoch(r.run, func() error {
					r.loop.Control = r.run.Control
					defer r.show()
					return inner()
				})
			})
			r.loop.Control = r.run.Control
			return err
		}
	}
	err := train()
	if err != nil && r.loop.ended() == nil {
		return r.stop(err)
	}
	return nil
}

// stop ends the run if err is a hook's StopError. It returns any other error.
func (r *runner) stop(err error) error {
	var stop StopError
	if !errors.As(err, &stop) || r.loop.ending() {
		return err
	}
	if r.stopReason == "" {
		r.stopReason = stop.Error()
	}
	r.loop.abort(err)
	return fire(r.session, "Stopped", func(h stoppedHook, run *Run) error {
		return h.Stopped(run, stop)
	})
}

// evaluateOnStart evaluates before the first update. After a resume, the generator is already where
// training continues, so the extra evaluation must not draw from it.
func (r *runner) evaluateOnStart() error {
	r.eval.quiet = r.loop.resumed && !r.onlyModel && r.o.Semantics.EvalOnStartAfterResume
	defer func() { r.eval.quiet = false }()
	return r.evaluateNow(false)
}

// interrupt ends a cancelled run at a point from which it can be resumed, with the current action
// still to be done.
func (r *runner) interrupt() error {
	e := &InterruptedError{GlobalStep: r.loop.GlobalStep, Epoch: r.loop.Progress, Err: r.cancelled()}
	r.loop.position = r.loop.before
	failed := func(err error) error {
		e.Unsaved = "saving failed"
		e.Err = fmt.Errorf("%w; %w", e.Err, err)
		return e
	}
	if err := r.saver.settle(true); err != nil {
		return failed(err)
	}
	switch {
	case !r.saver.saves():
		e.Unsaved = "Options.OutputDir is empty"
	case r.o.Save.kind == never && !r.o.SaveInterrupted:
		e.Unsaved = "Options.Save is Never, and Options.SaveInterrupted is not set"
	case r.loop.GlobalStep == 0:
		e.Unsaved = "there has been no update yet"
	case r.loop.LastSaved == r.loop.GlobalStep && r.saver.checkpoint != "":
		e.Checkpoint = r.saver.checkpoint // the resumed run repeats what was done since, with the same result
	default:
		if err := r.saver.write(false); err != nil {
			return failed(err)
		}
		e.Checkpoint = r.saver.checkpoint
	}
	return e
}

func (r *runner) result() *Result {
	return &Result{
		GlobalStep: r.loop.GlobalStep, Epoch: r.loop.Progress, TrainLoss: r.final["train_loss"], Metrics: r.final,
		Best: r.best, Checkpoint: r.saver.checkpoint, SaveWaited: r.saver.waited, StopReason: r.stopReason,
		History: slices.Clip(r.history), Warnings: r.warnings,
	}
}
