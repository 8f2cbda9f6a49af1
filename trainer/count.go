package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// The counts of a loop, and what they make due.

// length returns how many micro-batches to fetch together now; 0 means that the epoch is over.
func (l *loop) length() int {
	n := l.plan.window(l.Micro, l.Phase)
	left := l.plan.maxInEpoch - l.InEpoch
	switch {
	case l.plan.maxInEpoch > 0 && left <= 0:
		return 0
	case !l.flow.rules.CountsBatches() || l.flow.rules.UnfinishedWindowLost:
		return n
	}
	// the last window ends with the run, or with the limited epoch
	n = min(n, max(1, l.plan.limit-l.steps()))
	if l.plan.maxInEpoch > 0 {
		n = min(n, left)
	}
	return n
}

// windowIsComplete reports whether the window has no more micro-batches.
func (l *loop) windowIsComplete() bool { return l.index >= l.window }

// streamHasEnded reports whether this is the incomplete window at the end of a pass over a stream.
func (l *loop) streamHasEnded() bool {
	return l.plan.stream && l.window < l.plan.accumulate && !l.skipping()
}

// leavesWindows reports whether a stop requested between two micro-batches takes effect there.
// Otherwise their window is finished first.
func (l *loop) leavesWindows() bool {
	return l.flow.rules.Loop == semantics.HuggingFaceLoop || l.flow.rules.UnfinishedWindowLost
}

func (l *loop) stopping() bool { return l.Control.ShouldEpochStop || l.Control.ShouldTrainingStop }

func (l *loop) countBatch() {
	l.Micro++
	l.index++
	if l.flow.rules.CarriesWindows() {
		l.Phase = (l.Phase + 1) % l.plan.accumulate
	}
}

func (l *loop) countUpdate() {
	if !l.skipping() {
		l.Updates++
	}
}

// countStep counts a step and sets what is due after it: on_step_end of
// transformers.DefaultFlowCallback.
func (l *loop) countStep() {
	if l.skipping() {
		return
	}
	l.GlobalStep++
	l.InEpoch++
	l.Progress = l.progress()
	c, f := &l.Control, &l.flow
	c.ShouldLog = c.ShouldLog || f.log.due(l.GlobalStep, Update) || f.logFirstStep && l.GlobalStep == 1
	c.ShouldEvaluate = c.ShouldEvaluate || l.late() && f.eval.due(l.GlobalStep, Update)
	c.ShouldSave = c.ShouldSave || l.saveAgain || f.save.due(l.GlobalStep, Update)
	c.ShouldTrainingStop = c.ShouldTrainingStop || l.reached()
}

// lastStepIsDue makes evaluation and save due after the last step of the run if their intervals are
// in updates, even if the step is not a multiple of them.
func (l *loop) lastStepIsDue() {
	if l.skipping() || !l.reached() {
		return
	}
	c := &l.Control
	c.ShouldEvaluate = c.ShouldEvaluate || l.late() && l.flow.eval.byUpdates()
	c.ShouldSave = c.ShouldSave || l.flow.save.byUpdates()
}

// late reports whether enough steps have been made for evaluations that are delayed by updates.
func (l *loop) late() bool { return l.flow.evalDelay <= float64(l.GlobalStep) }

// countEpoch sets what is due at the end of an epoch. If the last step of the epoch was saved,
// [Trigger.AndEpochs] does not save it again unless the semantics say so.
func (l *loop) countEpoch() {
	if l.skipping() {
		return
	}
	if l.plan.stream && l.passEnded && l.Micro > 0 && !l.flow.rules.StreamEpochByPlan {
		l.PassBatches, l.Progress = l.Micro, float64(l.Epoch+1)
	}
	l.passEnded = false
	// In Hugging Face's loop, a pass over a stream with fewer batches than a window has no step,
	// and neither has any later pass.
	if l.idle++; l.InEpoch > 0 || !l.plan.stream || l.flow.rules.CarriesWindows() {
		l.idle = 0
	}
	c, f := &l.Control, &l.flow
	c.ShouldLog = c.ShouldLog || f.log.due(l.Epoch+1, Epoch)
	c.ShouldEvaluate = c.ShouldEvaluate || f.evalDelay <= l.Progress && f.eval.due(l.Epoch+1, Epoch)
	saved := f.save.also > 0 && l.LastSaved == l.GlobalStep && !f.rules.RepeatAtEpochEnd
	c.ShouldSave = c.ShouldSave || f.save.due(l.Epoch+1, Epoch) && !saved
}

// clearDue clears what is due when a step begins. A save requested inside a window waits for its
// update.
func (l *loop) clearDue() {
	l.Control.ShouldLog, l.Control.ShouldEvaluate = false, false
	l.Control.ShouldSave = l.Control.ShouldSave && l.index > 0 && !l.flow.rules.SaveInsideWindow
}

func (l *loop) isDue(a action) bool {
	switch a {
	case evalOnStart:
		return l.flow.evalOnStart
	case stepLog:
		return l.Control.ShouldLog && l.GlobalStep > l.LastLogged
	case epochLog:
		again := l.flow.rules.RepeatAtEpochEnd && l.flow.rules.LossReport != semantics.SinceLog
		return l.Control.ShouldLog && (l.GlobalStep > l.LastLogged || again)
	case stepEvaluate, epochEvaluate:
		return l.Control.ShouldEvaluate
	case stepSave:
		return l.Control.ShouldSave && (l.windowIsComplete() || l.flow.rules.SaveInsideWindow)
	case epochSave:
		return l.Control.ShouldSave
	case finalSave:
		return l.flow.save.kind == every && l.GlobalStep > 0 && l.LastSaved != l.GlobalStep
	case scheduleBySteps:
		return l.GlobalStep%max(1, l.flow.scheduleEvery) == 0
	}
	return true
}

func (l *loop) evaluated(best bool) {
	if l.flow.save.kind == atBest {
		l.Control.ShouldSave = best
	} else if best && l.flow.saveNewBest {
		l.Control.ShouldSave = true
	}
}

// progress returns the epoch as it is logged, with its fraction.
func (l *loop) progress() float64 {
	batches := l.plan.batches
	if l.PassBatches > 0 && l.plan.stream && !l.flow.rules.StreamEpochByPlan {
		batches = max(l.PassBatches, l.Micro) // a pass may be longer than the one before
	}
	return float64(l.Epoch) + float64(l.Micro)/float64(batches)
}

// lossCloses reports whether the next micro-batch closes a window of the reported loss. If losses
// are divided by the length of the window, that is the window of the update. Otherwise these
// windows are counted from the beginning of the epoch, wherever those of the updates begin.
func (l *loop) lossCloses() bool {
	if l.flow.rules.Divisor == semantics.WindowLength && !l.flow.rules.CarriesWindows() {
		return l.index+1 == l.window
	}
	done := l.Micro + 1
	return done%l.plan.accumulate == 0 || done == l.plan.batches ||
		l.flow.rules.CountsBatches() && done == l.plan.maxSteps
}

// beginEpoch puts the loop before the first batch of an epoch. A window begun in the previous epoch
// continues.
func (l *loop) beginEpoch(epoch int) {
	l.Epoch, l.Micro, l.InEpoch, l.LoaderStarted = epoch, 0, 0, false
}

func (l *loop) reached() bool { return l.steps() >= l.plan.limit }

// steps returns the count that is compared with the limit of the run.
func (l *loop) steps() int {
	if l.flow.rules.LimitByEpoch {
		return l.Epoch*l.plan.stepsPerEpoch + l.Micro/l.plan.batchesPerStep(l.flow.rules)
	}
	return l.GlobalStep
}
