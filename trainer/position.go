package trainer

import "slices"

// position is the state that a loop needs to continue. Checkpoints store it.
type position struct {
	At   action `json:"at"`   // the action that the run has reached; empty: none yet
	Done bool   `json:"done"` // that action has been carried out

	Epoch      int `json:"epoch"`          // completed epochs
	Micro      int `json:"micro_batches"`  // batches of this epoch already trained on
	GlobalStep int `json:"global_step"`    // updates, or micro-batches if the semantics count those as steps
	Updates    int `json:"updates"`        // optimizer updates
	InEpoch    int `json:"steps_in_epoch"` // steps in this epoch
	// micro-batches of the current window so far, if windows continue across epochs
	Phase      int     `json:"window_phase"`
	Progress   float64 `json:"epoch_fractional"` // the epoch as it is logged: 1.5 is half of the second
	LastLogged int     `json:"last_logged"`      // GlobalStep of the last log
	LastSaved  int     `json:"last_saved"`       // GlobalStep of the last checkpoint; -1: none
	Control    Control `json:"control"`
	// The step's generator has already been drawn from for the loader of this epoch, or of the next
	// evaluation.
	LoaderStarted     bool `json:"loader_started"`
	EvalLoaderStarted bool `json:"eval_loader_started"`
	// the next validation set to evaluate, if there are several
	EvalSet int `json:"eval_set,omitempty"`
	// batches in the last complete pass over a stream; 0: none is complete
	PassBatches int `json:"pass_batches,omitempty"`
}

// resumePoints are the actions at which a checkpoint can have been made: saves, actions at which an
// interruption stops a run, and events whose hooks may call Run.State.
var resumePoints = []action{evalOnStart, epochBegin, nextWindow, stepEnd, stepLog, stepEvaluate, stepSave, epochEnd,
	epochEvaluate, epochDone, epochSave, finalSave}

// resumePosition returns where a run continues that starts from the current state: after the
// current action if done is set, with that action otherwise. Inside a window it is the position
// before the window.
func (l *loop) resumePosition(done bool) position {
	p := l.position
	switch l.At {
	case stepBegin, train, substepEnd, clip, beforeUpdate, update, afterUpdate, schedule, scheduleBySteps:
		p, done = l.between, false
	case stepEnd, stepLog, stepEvaluate, stepSave:
		if !l.windowIsComplete() {
			p, done = l.between, false
		}
	case trainBegin, epochBegin: // a resumed run repeats these
		p.At, p.Done, done = epochBegin, false, false
	case finalLog, trainEnd:
		if l.stopped != nil {
			p = l.aborted
		}
		p.At, done = finalSave, true
	}
	if l.skipping() && l.stopped == nil { // still at the position where it was resumed
		done = false
	}
	p.Done = p.Done || done
	p.Control.ShouldSave = false
	return p
}

// possible reports whether a run can have been in this position.
func (p position) possible() bool {
	return slices.Contains(resumePoints, p.At) && (p.At != stepLog || p.Done) && p.LastLogged <= p.GlobalStep &&
		min(p.Epoch, p.Micro, p.LastLogged, p.EvalSet, p.PassBatches, p.Updates, p.InEpoch, p.Phase) >= 0
}

// saved returns the position for a checkpoint that is written now. This checkpoint also fulfils a
// pending save, except that of the end of an epoch if the EpochDone hooks are interrupted.
func (l *loop) saved() position {
	if l.At == finalLog { // the second attempt at the last asynchronous save
		return l.resumePosition(true)
	}
	if l.At == finalSave && l.unfinished { // the window is trained on again: a checkpoint does not have its gradients
		p := l.aborted
		p.LoaderStarted = l.LoaderStarted
		return p
	}
	p := l.position
	p.Control.ShouldSave = p.Control.ShouldSave && p.At == epochDone
	p.Done = p.Done || p.At == stepSave || p.At == epochSave || p.At == finalSave
	return p
}

// resume puts the loop where a checkpoint was made.
func (l *loop) resume(p position) {
	l.position = p
	l.resumed = true
	if !l.flow.rules.CountsBatches() {
		l.Updates = p.GlobalStep
	}
	if l.flow.rules.PositionFromGlobalStep || l.recount {
		l.resumeByCount()
	} else {
		l.resumeExactly()
	}
	if l.flow.rules.EpochsPerSession {
		l.plan.epochs += l.Epoch
	}
	l.before = l.position
}

// enter makes the loop skip all actions before a, and a itself if done is set.
func (l *loop) enter(a action, done bool) {
	l.skipTo, l.skipThrough = a, done
	l.At, l.Done = a, done
}

// resumeByCount computes the position from the number of updates, as transformers does.
func (l *loop) resumeByCount() {
	p := l.position
	l.Epoch = p.GlobalStep / l.plan.stepsPerEpoch
	l.InEpoch = p.GlobalStep % l.plan.stepsPerEpoch
	l.Micro = l.InEpoch * l.plan.batchesPerStep(l.flow.rules)
	l.Phase = 0
	l.LoaderStarted, l.EvalLoaderStarted, l.EvalSet = l.Micro > 0, false, 0
	if l.flow.rules.ForgetLossAtResume {
		l.LastLogged = p.GlobalStep
	}
	l.Control = Control{}
	// transformers restores its control too, as it was in the middle of the save
	if !l.flow.rules.ForgetHooksAtResume {
		l.Control = p.Control
		l.Control.ShouldSave, l.Control.ShouldTrainingStop = true, false
	}
	if l.flow.ignoreDataSkip {
		l.Micro, l.LoaderStarted = 0, false
	}
	if l.Micro > 0 {
		l.enter(nextWindow, false)
	} else {
		l.enter(epochBegin, false)
	}
}

// resumeExactly continues where the checkpoint was made, or as close to it as the semantics want.
func (l *loop) resumeExactly() {
	p := l.position
	left := l.plan.window(l.Micro, l.Phase) > 0
	if l.flow.ignoreDataSkip && left && (p.At == nextWindow || p.At.insideWindow() || p.At == epochBegin) {
		l.beginEpoch(l.Epoch)
	}
	l.Control.ShouldTrainingStop = l.reached()
	switch rules := l.flow.rules; {
	case p.At == finalSave && l.reached():
		l.enter(finalSave, p.Done)
	case p.At == finalSave: // a finished run is extended
		l.Control = Control{}
		l.enter(nextWindow, false)
		if !left { // its last epoch is complete
			l.beginEpoch(l.Epoch + 1)
			l.enter(epochBegin, false)
		}
	case p.Control.ShouldTrainingStop && l.length() > 0 && (p.At == epochEvaluate || p.At == epochSave) && !l.reached():
		// also extended, but the run had ended inside an epoch
		l.Control = Control{}
		l.enter(nextWindow, false)
	case rules.EpochsPerSession:
		l.beginEpoch(l.Epoch)
		l.Control = Control{}
		l.enter(epochBegin, false)
	default:
		l.enter(p.At, p.Done)
	}
	if l.flow.rules.RestartPassAtResume {
		l.LoaderStarted, l.EvalLoaderStarted, l.EvalSet = false, false, 0
	}
}
