package trainer

import (
	"iter"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// A loop is told by a text (texts.go). It counts, decides what is due, and passes by what a
// resumed run has done already; a runner carries the actions out. It has no Step, no data and no
// files, so every order of events is tested by itself, and its whole state is the small value
// [position], which a checkpoint keeps.

// action is one thing to do. A checkpoint names the one at which it was made.
type action string

const (
	trainBegin    action = "train begin"          // hooks
	evalOnStart   action = "evaluate on start"    // evaluate, without looking for the best
	epochBegin    action = "epoch begin"          // hooks
	nextWindow    action = "next window"          // have the batches of a window ready
	stepBegin     action = "step begin"           // hooks
	train         action = "train"                // forward and backward of micro-batch loop.index of the window
	substepEnd    action = "substep end"          // hooks
	clip          action = "clip"                 // unscale and clip the gradients
	beforeUpdate  action = "before update"        // hooks
	update        action = "update"               // optimizer step
	afterUpdate   action = "after update"         // hooks
	schedule      action = "schedule"             // move the learning rate, unless the update was skipped
	stepEnd       action = "step end"             // hooks
	stepLog       action = "log"                  // loss, grad_norm, learning_rate
	stepEvaluate  action = "evaluate"             // evaluate, then loop.evaluated
	stepSave      action = "save"                 // write a checkpoint
	epochEnd      action = "epoch end"            // hooks
	epochLog      action = "log after epoch"      // as stepLog
	epochEvaluate action = "evaluate after epoch" // as stepEvaluate
	epochSave     action = "save after epoch"     // as stepSave
	epochDone     action = "epoch done"           // hooks
	finalSave     action = "final save"           // a checkpoint of the last update, if it has none
	finalLog      action = "final log"            // train_loss and the speeds
	trainEnd      action = "train end"            // best model, hooks

	scheduleBySteps action = "schedule by steps" // schedule, after every so many steps
)

// flow is when to log, evaluate and save.
type flow struct {
	log, eval, save Trigger // resolved: no shares
	evalDelay       float64 // no evaluation before so many updates or epochs, whichever eval counts
	logFirstStep    bool
	evalOnStart     bool
	saveNewBest     bool // a new best is saved at once
	ignoreDataSkip  bool // a resumed run begins its epoch again
	scheduleEvery   int  // steps from one move of the learning rate to the next, where steps count for it
	rules           semantics.Rules
}

// performer carries out what a text tells: the [runner] of a run.
type performer interface {
	// do carries out an action.
	do(a action) error
	// around has train tell the windows of an epoch, within what hooks put around it.
	around(train func() error) error
	// fetch makes the windows of an epoch ready, the first of loop.window batches, and has body
	// tell each. It ends when body returns false or the epoch has no more batches.
	fetch(body func() bool) error
}

type loop struct {
	plan      plan
	flow      flow
	performer performer
	position
	before  position // as it was before the current action: where an interrupted run continues
	between position // as it was before the current window
	aborted position // where a run continues that a hook has ended

	window int // micro-batches that were fetched together: a window, or the part of it that is in this epoch
	index  int // the next micro-batch of it

	allBatches iter.Seq[int] // yieldBatches, kept since a window is told often

	passEnded bool // the stream has no more batches in this pass
	idle      int  // passes over a stream without a step, in a row

	recount   bool // the checkpoint is of other sizes: its position is worked out from the number of steps
	saveAgain bool // a checkpoint could not be written: the next step tries again

	resumed     bool   // began from a checkpoint
	skipTo      action // told actions are passed by until this one; empty: they are carried out
	skipThrough bool   // and it is passed by as well
	err         error  // what ended the run
	stopped     error  // the hook's error that ended it well
	unfinished  bool   // it did so before the update of a window
}

// Goals that no text tells.
const (
	theEnd  action = "the end" // final save, final log: a hook has ended the run
	nowhere action = "nowhere" // an error has
)

func newLoop(p plan, f flow) *loop {
	l := &loop{plan: p, flow: f, position: position{LastSaved: -1}}
	l.allBatches = l.yieldBatches
	return l
}

// run tells the text of the semantics from beginning to end.
func (l *loop) run(p performer) error {
	l.performer = p
	loops[l.flow.rules.Loop](l)
	return l.err
}

// do carries an action out, or passes it by.
func (l *loop) do(a action) {
	switch {
	case l.skipTo == "":
		l.At, l.Done = a, false
	case l.skipTo == a && !l.skipThrough, a == finalLog && l.skipTo != nowhere:
		l.stopSkipping()
		l.At, l.Done = a, false
	case l.skipTo == a:
		l.stopSkipping()
		return
	case l.repeats(a): // without moving from where the checkpoint was made
	default:
		return
	}
	if a == epochBegin && l.skipTo == "" {
		l.Control.ShouldEpochStop = false
	}
	if a == stepBegin {
		l.clearDue()
	}
	l.before = l.position
	if err := l.performer.do(a); err != nil {
		l.err, l.skipTo = err, nowhere
	}
	if l.skipping() {
		return
	}
	if a == train {
		l.countBatch()
	}
	l.Done = true
}

// due carries out those of the actions that are due, in their order.
func (l *loop) due(actions ...action) {
	for _, a := range actions {
		if a == finalSave && l.skipTo == theEnd {
			l.stopSkipping()
		}
		if l.skipping() && (l.skipTo == a || l.repeats(a)) || !l.skipping() && l.isDue(a) {
			l.do(a)
		}
	}
}

// passing reports whether actions are passed by.
func (l *loop) skipping() bool { return l.skipTo != "" }

// arrive ends the passing by.
func (l *loop) stopSkipping() { l.skipTo, l.skipThrough = "", false }

// repeats reports whether hooks are told of an action that a resumed run passes by: each session has
// its beginning, and that of the epoch it continues in.
func (l *loop) repeats(a action) bool {
	switch a {
	case trainBegin:
		return l.skipTo != nowhere && l.skipTo != theEnd
	case evalOnStart:
		return l.skipTo != nowhere && l.skipTo != theEnd && l.flow.evalOnStart &&
			l.flow.rules.EvalOnStartAfterResume
	case epochBegin:
		return l.skipTo.insideEpoch()
	}
	return false
}

// unsaved takes back that the checkpoint of an update was written; last is the one before it.
func (l *loop) unsaved(step, last int) {
	for _, p := range []*position{&l.position, &l.before, &l.between, &l.aborted} {
		if p.LastSaved == step {
			p.LastSaved = last
		}
	}
}

// insideWindow reports whether a is told inside a window, behind its batches and its update.
func (a action) insideWindow() bool {
	return a == stepEnd || a == stepLog || a == stepEvaluate || a == stepSave
}

// beforeUpdate reports whether a is told between the first batch of a window and its update.
func (a action) beforeUpdate() bool {
	return a == stepBegin || a == train || a == substepEnd || a == clip || a == beforeUpdate
}

func (a action) insideEpoch() bool {
	return a.insideWindow() || a == epochBegin || a == nextWindow || a == epochEnd || a == epochEvaluate ||
		a == epochDone || a == epochSave
}

// abort ends the run where it stands: what has gathered of a window is neither used nor cleared.
func (l *loop) abort(reason error) {
	l.stopped, l.aborted, l.unfinished = reason, l.resumePosition(false), l.At.beforeUpdate()
	l.Control.ShouldTrainingStop = true
	l.skipTo, l.skipThrough = theEnd, false
}

// ended is what has ended the run; nil while it lasts.
func (l *loop) ended() error {
	switch l.skipTo {
	case nowhere:
		return l.err
	case theEnd:
		return l.stopped
	}
	return nil
}

func (l *loop) ending() bool { return l.At == finalLog || l.At == trainEnd }

// epochs tells the epochs from the current one on.
func (l *loop) epochs() iter.Seq[int] {
	return func(yield func(int) bool) {
		if l.skipping() && !l.skipTo.insideEpoch() {
			return
		}
		for l.Epoch < l.plan.epochs {
			if !yield(l.Epoch) || l.skipping() || l.Control.ShouldTrainingStop {
				return
			}
			l.beginEpoch(l.Epoch + 1)
		}
		if l.skipTo.insideEpoch() { // the checkpoint is at the end of the last one
			l.stopSkipping()
		}
	}
}

// windows tells the windows of the epoch from the current batch on: the micro-batches behind one
// update each.
func (l *loop) windows() iter.Seq[int] {
	return func(yield func(int) bool) {
		if l.skipping() && !l.skipTo.insideWindow() && l.skipTo != nextWindow {
			return
		}
		entered := false
		err := l.performer.around(func() error {
			if !entered {
				entered = true
				l.yieldWindows(yield)
			}
			return l.ended()
		})
		switch {
		case l.ended() != nil:
		case err != nil:
			l.err, l.skipTo = err, nowhere
		case !entered && l.skipping():
			l.stopSkipping()
		}
	}
}

func (l *loop) yieldWindows(yield func(int) bool) {
	switch {
	case l.skipTo.insideWindow():
		l.window, l.index = 0, 0
		if !yield(0) || l.skipping() {
			return
		}
	case l.skipTo == nextWindow:
		l.stopSkipping()
	}
	if !l.nextWindow() {
		return
	}
	err := l.performer.fetch(func() bool { return yield(l.window) && !l.skipping() })
	if err != nil {
		l.err, l.skipTo = err, nowhere
	}
}

// nextWindow moves on to the next window of the epoch, if there is one.
func (l *loop) nextWindow() bool {
	l.At, l.Done = nextWindow, false
	l.before, l.between = l.position, l.position
	l.window, l.index = l.length(), 0
	return l.window > 0 && (!l.stopping() || l.leavesWindows())
}

// batches tells the micro-batches of the window. Where they are the steps a resumed run enters
// between two of them.
func (l *loop) batches() iter.Seq[int] { return l.allBatches }

func (l *loop) yieldBatches(yield func(int) bool) {
	if l.skipTo.insideWindow() && l.flow.rules.CountsBatches() && (!yield(l.index) || l.skipping()) {
		return
	}
	for l.index < l.window {
		if !yield(l.index) || l.skipping() {
			return
		}
	}
}

// fetched tells the loop that a stream had only n batches left for the window.
func (l *loop) fetched(n int) {
	l.passEnded, l.window = true, n
	if n == 0 && l.Micro == 0 { // a pass without any batch ends the run
		l.Control.ShouldTrainingStop = true
	}
}
