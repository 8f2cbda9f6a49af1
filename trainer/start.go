package trainer

import (
	"errors"
	"fmt"
)

// Start is where in its course a run begins: see Options.Start. Whoever sets it has put the step's
// weights, moments and generator there.
type Start struct {
	Epoch         int // epochs that have ended
	Batches       int // micro-batches of the next epoch that were trained on
	GlobalStep    int // steps, in the unit of the semantics
	Updates       int // optimizer updates; where steps are updates it is GlobalStep
	ScheduleSteps int // how often the learning rate has moved
	WindowPhase   int // micro-batches of a window that is under way, where windows run over the ends of epochs

	// LossSum, LossCount and LossMean are what semantics.RunningMean goes on with.
	LossSum, LossMean float64
	LossCount         int
}

// Saver writes checkpoints: see Options.Saver. It is called from the training goroutine.
type Saver interface {
	// SaveCheckpoint writes the state of the run as it is now, and returns where it is.
	SaveCheckpoint(r *Run) (path string, err error)
}

// begin puts the loop where Options.Start says.
func (f *fit[S, B]) startAt(s Start) error {
	for _, n := range []int{s.Epoch, s.Batches, s.GlobalStep, s.Updates, s.ScheduleSteps, s.WindowPhase, s.LossCount} {
		if n < 0 {
			return &OptionError{"Start", fmt.Sprintf("%+v", s), "no negative number"}
		}
	}
	if !f.loop.plan.stream && s.Batches > f.loop.plan.batches {
		return &OptionError{"Start", fmt.Sprintf("%+v", s), fmt.Sprintf("at most the %d batches of an epoch",
			f.loop.plan.batches)}
	}
	if s.WindowPhase >= f.o.Accumulate || s.WindowPhase > 0 && !f.o.Semantics.CarriesWindows() {
		return &OptionError{"Start", fmt.Sprintf("%+v", s), "a window that is under way only where windows run over " +
			"the ends of epochs, and less than Accumulate of it"}
	}
	f.loop.startAt(s)
	f.scheduleStep = s.ScheduleSteps
	f.losses.running = runningMean{Sum: s.LossSum, Count: s.LossCount, Mean: s.LossMean}
	f.show()
	return nil
}

// startAt puts the loop before a batch.
func (l *loop) startAt(s Start) {
	l.beginEpoch(s.Epoch)
	l.Micro, l.GlobalStep, l.Updates, l.Phase = s.Batches, s.GlobalStep, s.Updates, s.WindowPhase
	l.InEpoch = s.Batches / l.plan.batchesPerStep(l.flow.rules)
	if !l.flow.rules.CountsBatches() {
		l.Updates = s.GlobalStep
	}
	l.LastLogged = s.GlobalStep
	l.Progress = l.progress()
	l.resumed = true
	if l.flow.rules.EpochsPerSession {
		l.plan.epochs += l.Epoch
	}
	l.Control.ShouldTrainingStop = l.reached()
	switch {
	case l.Control.ShouldTrainingStop:
		l.goal = theEnd
	case l.Micro > 0:
		l.enter(nextWindow, false)
	default:
		l.enter(epochBegin, false)
	}
}

// checkSaver refuses what cannot be had together with a Saver.
func (o *Options) checkSaver() error {
	switch {
	case o.Start != nil && o.ResumeFrom != "":
		return &OptionError{"Start", "set", "nil, since ResumeFrom is set: one of them says where the run begins"}
	case o.Saver == nil:
		return nil
	case o.LoadBestAtEnd, o.KeepCheckpoints > 0, o.Pusher != nil, o.ResumeFrom != "":
		return errors.New("trainer: Options.Saver writes checkpoints in its own way, so LoadBestAtEnd, " +
			"KeepCheckpoints, Pusher and ResumeFrom cannot be set with it")
	}
	return nil
}
