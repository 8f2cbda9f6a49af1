package trainer

import (
	"iter"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// The order of events of each loop is in texts.go. A loop counts, decides which actions are due
// and, after a resume, skips those that were done before the checkpoint. A runner carries the
// actions out. A loop has no Step, no data and no files, so every order of events is tested by
// itself, and its whole state is the small value [position], which checkpoints store.

// action is one thing that a run does. A checkpoint records the action at which it was made.
type action string

const (
	trainBegin    action = "train begin"          // hooks
	evalOnStart   action = "evaluate on start"    // evaluate, without looking for the best
	epochBegin    action = "epoch begin"          // hooks
	nextWindow    action = "next window"          // load the batches of a window
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

	scheduleBySteps action = "schedule by steps" // as schedule, after every flow.scheduleEvery steps
)

// flow says when to log, evaluate and save.
type flow struct {
	log, eval, save Trigger // shares of the run resolved to numbers of updates
	evalDelay       float64 // no evaluation before this many updates or epochs, in the unit of eval
	logFirstStep    bool
	evalOnStart     bool
	saveNewBest     bool // save whenever an evaluation is the best so far
	ignoreDataSkip  bool // a resumed run restarts its epoch at the first batch
	scheduleEvery   int  // steps between changes of the learning rate, if the schedule counts steps
	rules           semantics.Rules
}

// performer carries out the actions of a loop: the [runner] of a run, or a recorder in a test.
type performer interface {
	// do carries out an action.
	do(a action) error
	// around calls train, which trains on the windows of an epoch, inside the hooks that wrap an
	// epoch.
	around(train func() error) error
	// fetch loads the windows of an epoch, the first of which has loop.window batches, and calls
	// body for each once its batches are loaded. It ends when body returns false or the epoch has
	// no more batches.
	fetch(body func() bool) error
}

type loop struct {
	plan      plan
	flow      flow
	performer performer
	position
	before  position // before the current action: where an interrupted run continues
	between position // before the current window
	aborted position // where a run that a hook has ended continues

	window int // micro-batches fetched together: a window, or the part of it in this epoch
	index  int // the next micro-batch of the window

	allBatches iter.Seq[int] // yieldBatches as a method value, made only once since every window uses it

	passEnded bool // the stream has no more batches in this pass
	idle      int  // consecutive passes over a stream without a step

	recount   bool // the checkpoint is of other sizes: compute the position from the number of steps
	saveAgain bool // a checkpoint could not be written: try again after the next step

	resumed     bool   // the run continues from a checkpoint or from Options.Start
	skipTo      action // actions before this one are skipped; empty: none are
	skipThrough bool   // skipTo itself is skipped too
	err         error  // the error that ended the run
	stopped     error  // the StopError by which a hook ended the run
	unfinished  bool   // it did so inside a window, before the update
}

// Values of skipTo that are not actions of any loop.
const (
	theEnd  action = "the end" // skip to the final save and log: a hook has ended the run
	nowhere action = "nowhere" // skip everything: an error has ended the run
)

func newLoop(p plan, f flow) *loop {
	l := &loop{plan: p, flow: f, position: position{LastSaved: -1}}
	l.allBatches = l.yieldBatches
	return l
}

// run runs the loop of the semantics from beginning to end.
func (l *loop) run(p performer) error {
	l.performer = p
	loops[l.flow.rules.Loop](l)
	return l.err
}

// do carries out an action, or skips it.
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
	case l.repeats(a): // carried out, but the position stays where the checkpoint was made
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

// due carries out those of the actions that are due, in order.
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

// skipping reports whether actions are being skipped.
func (l *loop) skipping() bool { return l.skipTo != "" }

// stopSkipping makes the next action be carried out.
func (l *loop) stopSkipping() { l.skipTo, l.skipThrough = "", false }

// repeats reports whether an action is carried out even though the checkpoint was made after it:
// each session has a beginning of its own, and hooks see the beginning of the epoch in which it
// continues.
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

// unsaved records that the checkpoint of step could not be written; last is the step of the
// checkpoint before it.
func (l *loop) unsaved(step, last int) {
	for _, p := range []*position{&l.position, &l.before, &l.between, &l.aborted} {
		if p.LastSaved == step {
			p.LastSaved = last
		}
	}
}

// insideWindow reports whether a is an action of a window after its update.
func (a action) insideWindow() bool {
	return a == stepEnd || a == stepLog || a == stepEvaluate || a == stepSave
}

// beforeUpdate reports whether a is an action of a window before its update.
func (a action) beforeUpdate() bool {
	return a == stepBegin || a == train || a == substepEnd || a == clip || a == beforeUpdate
}

func (a action) insideEpoch() bool {
	return a.insideWindow() || a == epochBegin || a == nextWindow || a == epochEnd || a == epochEvaluate ||
		a == epochDone || a == epochSave
}

// abort ends the run where it is: the gradients of an unfinished window are neither used nor
// cleared.
func (l *loop) abort(reason error) {
	l.stopped, l.aborted, l.unfinished = reason, l.resumePosition(false), l.At.beforeUpdate()
	l.Control.ShouldTrainingStop = true
	l.skipTo, l.skipThrough = theEnd, false
}

// ended returns what has ended the run; nil while it lasts.
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

// epochs yields the epochs, starting with the current one.
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

// windows yields the windows of the epoch, starting at the current batch. A window is the
// micro-batches of one update, or the part of them in this epoch.
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

// nextWindow moves to the next window of the epoch, if there is one.
func (l *loop) nextWindow() bool {
	l.At, l.Done = nextWindow, false
	l.before, l.between = l.position, l.position
	l.window, l.index = l.length(), 0
	return l.window > 0 && (!l.stopping() || l.leavesWindows())
}

// batches yields the micro-batches of the window. Where micro-batches are steps, a resumed run may
// enter between two of them.
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

// fetched records that a stream had only n batches left for the window.
func (l *loop) fetched(n int) {
	l.passEnded, l.window = true, n
	if n == 0 && l.Micro == 0 { // a pass without any batch ends the run
		l.Control.ShouldTrainingStop = true
	}
}
