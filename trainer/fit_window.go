package trainer

import (
	"fmt"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// What belongs to one window: its batches, their gradients, the update and the learning rate.

// beginWindow counts what is in a window before its first forward.
func (f *fit[S, B]) beginWindow() {
	if !f.several() { // else the processes have agreed on it
		f.totals = f.countWindow()
	}
	f.filter = f.loop.GlobalStep - f.loop.LastLogged
}

// trainBatch runs forward and backward on one micro-batch.
func (f *fit[S, B]) trainBatch() error {
	w := Window{Index: f.loop.index, Len: f.loop.window, Divisor: float64(f.loop.window),
		Items: f.totals.items, FilterLoss: f.o.Semantics.FilterNonFiniteLoss, SinceLog: f.filter,
		LearningRate: f.nextRate()}
	if f.o.Semantics.CarriesWindows() {
		w.Index, w.Len, w.Divisor = f.loop.Phase, f.o.Accumulate, float64(f.o.Accumulate)
	}
	if f.o.Semantics.Divisor == semantics.Accumulate {
		w.Divisor = float64(f.o.Accumulate)
	}
	if f.totals.items > 0 && f.o.Semantics.UndividedWithItems {
		w.Divisor = 1
	}
	if n := f.o.EmptyCacheSteps; n > 0 && f.loop.GlobalStep%n == 0 {
		if err := f.t.step.EmptyCache(); err != nil {
			return f.stepError("empty the cache", err)
		}
	}
	batch := f.window[f.loop.index]
	f.batch = batch
	defer func() { f.batch = nil }()
	if err := fire(f, f.hooks.batchBegin, "BatchBegin", BatchBeginHook.BatchBegin); err != nil {
		return err
	}
	w.KeepMode = f.keepMode
	if err := f.forwardBackward(batch, w); err != nil {
		return err
	}
	f.trained += float64(f.samples[f.loop.index] * f.o.Process.World)
	f.tokens += f.totals.tokens[f.loop.index]
	f.flops += f.totals.flops[f.loop.index]
	return fire(f, f.hooks.backward, "AfterBackward", BackwardHook.AfterBackward)
}

// forwardBackward adds the gradient of a micro-batch, in two steps where something has to happen
// between them.
func (f *fit[S, B]) forwardBackward(batch B, w Window) error {
	where := func() string { return fmt.Sprintf("train on micro-batch %d of %d", w.Index+1, w.Len) }
	step, splits := f.t.step.(SplitStep[B])
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
		f.losses.batch(loss, f.samples[f.loop.index], f.loop.lossCloses(), w.Divisor)
	}
	if err := fire(f, f.hooks.forward, "AfterForward", ForwardHook.AfterForward); err != nil {
		return err
	}
	return f.stepError(where(), step.Backward(f.stepContext()))
}

func (f *fit[S, B]) clip() error {
	return f.stepError("clip the gradients", f.t.step.Clip(f.stepContext()))
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
	return nil
}

// moveRate moves the learning rate on, unless the last update was skipped. One that follows the
// evaluations moves with them.
func (f *fit[S, B]) moveRate() error {
	if f.controller != nil && f.o.Semantics.CountsBatches() {
		return nil
	}
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
	return f.o.Semantics.FusedHidesSkips && f.t.step.About().Fused
}

// scheduleEvery is after how many steps the rate moves.
func (f *fit[S, B]) scheduleEvery() int {
	if f.o.ScheduleSteps > 0 {
		return f.o.ScheduleSteps
	}
	return max(1, min(f.loop.plan.stepsPerEpoch, f.loop.plan.maxSteps))
}
