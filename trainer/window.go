package trainer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// The windows of an epoch: their batches, their gradients, the update and the learning rate.

// beginEpoch clears what belongs to the previous epoch, unless a resumed run begins in the middle
// of one.
func (r *runner) beginEpoch() {
	if r.loop.Micro == 0 {
		r.losses.beginEpoch()
	}
	r.eval.keepMode = false
}

// fetch loads the windows of an epoch, starting at the loop's position, and calls body for each.
// All batches of a window are loaded before its first forward pass, since the step may want to
// count their items.
func (r *runner) fetch(body func() bool) error {
	l := r.loop
	if l.idle >= idlePasses {
		return r.stepError("continue", fmt.Errorf("the last %d passes over the stream gave no update, and further "+
			"passes would not either: a pass has fewer batches than Options.Accumulate (%d), and Hugging Face's "+
			"loop never trains on such leftovers; accumulate fewer batches, or make them smaller", l.idle, l.plan.accumulate))
	}
	if !l.LoaderStarted {
		if err := r.startLoader(true); err != nil {
			return err
		}
		l.LoaderStarted, l.before.LoaderStarted = true, true
	}
	return r.fetchFrom(l.Micro, body)
}

// fetchFrom loads the windows of an epoch, starting at a batch.
func (r *runner) fetchFrom(micro int, body func() bool) error {
	l := r.loop
	r.window, r.samples, r.divider.window = r.window[:0], r.samples[:0], r.divider.window[:0]
	for batch, err := range r.pass(r.ctx, l.Epoch, micro) {
		if err != nil {
			if r.ctx.Err() != nil {
				return r.interrupt()
			}
			return r.failGroup(r.stepError("load a batch", err))
		}
		r.window, r.samples = append(r.window, batch.Batch), append(r.samples, batch.Samples)
		if len(r.window) < l.window {
			continue
		}
		if stop, err := r.agree(); err != nil || stop {
			return err
		}
		if !r.trainWindow(body) || !l.nextWindow() {
			return nil
		}
		if r.divider.stale {
			r.divider.stale = false
			return r.fetchFrom(l.Micro, body)
		}
	}
	if !l.plan.stream {
		return r.failGroup(r.stepError("load a batch", fmt.Errorf("the loader ended after fewer than the "+
			"%d batches of an epoch", l.plan.batches)))
	}
	return r.endPass(body)
}

// trainWindow trains on the window that is loaded.
func (r *runner) trainWindow(body func() bool) bool {
	if !r.several() { // agree has set it if there are several processes
		r.totals = r.countWindow()
	}
	r.gathered = 0
	r.filter, r.batchRequested = r.loop.GlobalStep-r.loop.LastLogged, false
	more := body()
	if more {
		r.recycle()
	}
	clear(r.window) // so that the batches can be freed: the loader and the step no longer need them
	clear(r.divider.window)
	r.window, r.samples, r.divider.window = r.window[:0], r.samples[:0], r.divider.window[:0]
	return more
}

// endPass trains on the rest of a stream's pass, which may be empty.
func (r *runner) endPass(body func() bool) error {
	if len(r.window) > 0 {
		if stop, err := r.agree(); err != nil || stop {
			return err
		}
	}
	r.loop.fetched(len(r.window))
	if len(r.window) > 0 {
		r.trainWindow(body)
		return nil
	}
	if r.loop.Micro == 0 {
		if r.loop.GlobalStep == 0 && !r.o.Semantics.EndWithoutBatch {
			return errEmptyStream
		}
		r.warn("pass %d over the training data has no batch, so the run ends after %d of %d updates", r.loop.Epoch+1,
			r.loop.GlobalStep, r.loop.plan.maxSteps)
	}
	return nil
}

// limitBatches is Run.LimitBatches.
func (r *runner) limitBatches(n int) {
	if p := &r.loop.plan; !p.stream {
		p.batches = max(0, min(n, r.batches))
	}
}

// windowNow returns the place of the next micro-batch in its window.
func (r *runner) windowNow() Window {
	w := Window{Index: r.loop.index, Len: r.loop.window, Divisor: float64(r.loop.window),
		Items: r.totals.items, FilterLoss: r.o.Semantics.FilterNonFiniteLoss, SinceLog: r.filter,
		LearningRate: r.rates.next(), SkipNonFinite: r.o.NonFinite == SkipNonFinite,
		StopAtNonFinite: r.o.NonFinite == StopAtNonFinite, SkipUnseen: r.skipsUnseen(), KeepMode: r.eval.keepMode}
	if r.o.Semantics.CarriesWindows() {
		w.Index, w.Len, w.Divisor = r.loop.Phase, r.o.Accumulate, float64(r.o.Accumulate)
	}
	if r.o.Semantics.Divisor == semantics.Accumulate {
		w.Divisor = float64(r.o.Accumulate)
	}
	if r.totals.items > 0 && r.o.Semantics.UndividedWithItems {
		w.Divisor = 1
	}
	return w
}

func (r *runner) trainBatch() error {
	if n := r.o.EmptyCacheSteps; n > 0 && r.loop.GlobalStep%n == 0 {
		if err := r.saver.emptyCache(); err != nil {
			return err
		}
	}
	r.batch = &r.window[r.loop.index]
	defer func() { r.batch = nil }()
	if err := fire(r.session, "BatchBegin", batchBeginHook.BatchBegin); err != nil {
		return err
	}
	w := r.windowNow() // only now, since an evaluation requested by a hook may have changed the mode
	if err := r.forwardBackward(*r.batch, w); err != nil {
		return r.find(err, w, r.loop.index, r.loop.index+1)
	}
	r.gathered++
	r.trained += float64(r.samples[r.loop.index] * r.o.Process.World)
	r.tokens += int64(r.totals.tokens[r.loop.index])
	r.flops += r.totals.flops[r.loop.index]
	return fire(r.session, "AfterBackward", afterBackwardHook.AfterBackward)
}

// forwardBackward adds the gradient of a micro-batch, in two calls of the step if something has to
// happen between them.
func (r *runner) forwardBackward(batch any, w Window) error {
	where := func() string { return fmt.Sprintf("train on micro-batch %d of %d", w.Index+1, w.Len) }
	if r.o.DivideOnOutOfMemory {
		return r.trainDivided(w)
	}
	step := r.step.split
	if step == nil || !r.losses.wanted() && !slices.ContainsFunc(r.hooks, has[afterForwardHook]) {
		if err := r.step.Train(r.stepCtx, batch, w); err != nil {
			return r.stepError(where(), err)
		}
		return nil
	}
	if err := step.Forward(r.stepCtx, batch, w); err != nil {
		return r.stepError(where(), err)
	}
	if r.losses.wanted() {
		loss, err := step.BatchLoss()
		if err != nil {
			return r.stepError("read the loss", err)
		}
		if err := r.meanLoss(&loss); err != nil {
			return err
		}
		r.losses.batch(loss, r.samples[r.loop.index], r.loop.lossCloses(), w.Divisor)
	}
	if err := fire(r.session, "AfterForward", afterForwardHook.AfterForward); err != nil {
		return err
	}
	return r.stepError(where(), step.Backward(r.stepCtx))
}

func (r *runner) clip() error {
	if err := r.stepError("clip the gradients", r.step.Clip(r.stepCtx)); err != nil {
		return r.find(err, r.windowNow(), 0, r.loop.index)
	}
	return nil
}

func (r *runner) update() error {
	rate := r.rates.next()
	r.rates.first = nil
	if m := r.rates.momentum; m != nil {
		if err := r.step.SetMomentum(m(r.rates.moves)); err != nil {
			return r.failGroup(r.stepError("set the momentum", err))
		}
	}
	applied, err := r.step.Update(r.stepCtx, rate)
	if err != nil {
		return r.failGroup(r.stepError("update", err))
	}
	r.rates.newest = rate
	r.rates.last, r.gradNorm = &r.rates.newest, nil
	r.losses.updated()
	r.rates.applied = applied
	return nil
}

func (r *runner) endStep() error {
	if r.seesEachLoss() {
		if err := r.reportStep(); err != nil {
			return err
		}
	}
	if err := r.saver.settle(false); err != nil {
		return err
	}
	return fire(r.session, "StepEnd", stepEndHook.StepEnd)
}

// batchLoss is Run.BatchLoss.
func (r *runner) batchLoss() (BatchLoss, error) {
	if r.step.split == nil {
		return BatchLoss{}, fmt.Errorf("trainer: Run.BatchLoss: %T is not a trainer.SplitStep: %s", r.step.given,
			passOn("Forward, Backward and BatchLoss"))
	}
	if r.batch == nil {
		return BatchLoss{}, errors.New("trainer: Run.BatchLoss: there is no current batch: it may be called in " +
			"AfterForward, AfterBackward and EvalStep")
	}
	return r.step.split.BatchLoss()
}
