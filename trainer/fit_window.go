package trainer

import (
	"fmt"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// What belongs to one window: its batches, their gradients, the update and the learning rate.

// trainWindow does everything that belongs to one window and returns the action after it.
func (f *fit[S, B]) trainWindow() (action, error) {
	f.judged = nil
	if f.several() {
		f.items = f.totals.items
	} else {
		f.items = f.countItems()
	}
	if f.o.Semantics.FilterNonFiniteLoss {
		f.t.step.(LossFilter).FilterLoss(f.m.GlobalStep - f.m.LastLogged) // New has checked that it is one
	}
	for {
		a := f.next()
		switch a {
		case doFetch, doEpochBegin, doEpochEnd, doFinalLog, doTrainEnd, doDone:
			return a, nil
		}
		if err := f.do(a); err != nil {
			return 0, err
		}
	}
}

// trainBatch runs forward and backward on one micro-batch.
func (f *fit[S, B]) trainBatch() error {
	w := Window{Index: f.m.index, Len: f.m.window, Divisor: float64(f.m.window), Items: f.items,
		LearningRate: f.nextRate()}
	if f.o.Semantics.CarryWindows {
		w.Index, w.Len, w.Divisor = f.m.Phase, f.o.Accumulate, float64(f.o.Accumulate)
	}
	if f.o.Semantics.Divisor == semantics.Accumulate {
		w.Divisor = float64(f.o.Accumulate)
	}
	if f.items > 0 && f.o.Semantics.UndividedWithItems {
		w.Divisor = 1
	}
	if n := f.o.EmptyCacheSteps; n > 0 && f.m.GlobalStep%n == 0 {
		if err := f.t.step.(CacheEmptier).EmptyCache(); err != nil { // New has checked that it is one
			return f.stepError("empty the cache", err)
		}
	}
	batch := f.window[f.m.index]
	f.batch = batch
	defer func() { f.batch = nil }()
	if err := fire(f, f.hooks.batchBegin, "BatchBegin", BatchBeginHook.BatchBegin); err != nil {
		return err
	}
	if err := f.forwardBackward(batch, w); err != nil {
		return err
	}
	if f.o.Semantics.ClipEveryBatch {
		if err := f.clip(); err != nil {
			return err
		}
	}
	f.trained += float64(f.samples[f.m.index] * f.o.Process.World)
	f.count(batch)
	return fire(f, f.hooks.backward, "AfterBackward", BackwardHook.AfterBackward)
}

// forwardBackward adds the gradient of a micro-batch, in two steps where something has to happen
// between them.
func (f *fit[S, B]) forwardBackward(batch B, w Window) error {
	where := func() string { return fmt.Sprintf("train on micro-batch %d of %d", w.Index+1, w.Len) }
	step, splits := f.t.step.(Forwarder[B])
	if !splits || len(f.hooks.forward) == 0 && !f.losses.wanted() {
		if err := f.t.step.Train(f.stepContext(), batch, w); err != nil {
			return f.stepError(where(), err)
		}
		return nil
	}
	if err := step.Forward(f.stepContext(), batch, w); err != nil {
		return f.stepError(where(), err)
	}
	if f.losses.wanted() {
		loss, err := step.BatchLoss()
		if err != nil {
			return f.stepError("read the loss", err)
		}
		f.losses.batch(loss, f.samples[f.m.index], f.m.lossCloses())
	}
	if err := fire(f, f.hooks.forward, "AfterForward", ForwardHook.AfterForward); err != nil {
		return err
	}
	return f.stepError(where(), step.Backward(f.stepContext()))
}

// clip calls the step's own clipping, if it has one.
func (f *fit[S, B]) clip() error {
	if c, ok := f.t.step.(Clipper); ok {
		return f.stepError("clip the gradients", c.Clip(f.stepContext()))
	}
	return nil
}

// count adds a micro-batch to the tokens and the floating-point operations.
func (f *fit[S, B]) count(batch B) {
	var tokens int64
	var flops float64
	if f.several() {
		tokens, flops = f.totals.tokens[f.m.index], f.totals.flops[f.m.index]
	} else {
		tokens, flops = f.countBatch(batch)
	}
	f.tokens += tokens
	f.flops += flops
}

// nextRate is the learning rate of the next update.
func (f *fit[S, B]) nextRate() float64 {
	if f.firstRate != nil {
		return *f.firstRate
	}
	return f.rate(f.scheduleStep)
}

// update ends a window with an optimizer step.
func (f *fit[S, B]) update() error {
	rate := f.nextRate()
	f.firstRate = nil
	if err := f.setMomentum(); err != nil {
		return err
	}
	applied, err := f.t.step.Update(f.stepContext(), rate)
	if err != nil {
		return f.stepError("update", err)
	}
	f.lastRate, f.gradNorm = &rate, nil
	f.losses.updated()
	f.applied = applied
	if f.o.Semantics.ScheduleBySteps {
		return nil
	}
	return f.moveRate()
}

// moveRate moves the learning rate on, unless the last update was skipped.
func (f *fit[S, B]) moveRate() error {
	if !f.applied && !f.o.Semantics.ScheduleOnSkip && !f.skipHidden() {
		return nil
	}
	f.scheduleStep++
	if len(f.hooks.schedule) == 0 {
		return nil
	}
	rate := f.rate(f.scheduleStep)
	return fire(f, f.hooks.schedule, "AfterSchedule", func(h ScheduleHook, r *Run) error {
		return h.AfterSchedule(r, rate)
	})
}

// skipHidden reports whether an update that loss scaling skipped passes for one that was made.
func (f *fit[S, B]) skipHidden() bool {
	u, ok := f.t.step.(FusedUpdater)
	return ok && f.o.Semantics.FusedHidesSkips && u.FusedUpdate()
}

// stepEnd ends a step, and moves the rate where the semantics count steps for it.
func (f *fit[S, B]) stepEnd() error {
	if f.o.Semantics.ScheduleBySteps && f.controller == nil && f.m.GlobalStep%f.scheduleEvery() == 0 {
		if err := f.moveRate(); err != nil {
			return err
		}
	}
	return fire(f, f.hooks.stepEnd, "StepEnd", StepEndHook.StepEnd)
}

// scheduleEvery is after how many steps the rate moves.
func (f *fit[S, B]) scheduleEvery() int {
	if f.o.ScheduleSteps > 0 {
		return f.o.ScheduleSteps
	}
	return max(1, min(f.m.plan.stepsPerEpoch, f.m.plan.maxSteps))
}
