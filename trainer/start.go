package trainer

import (
	"errors"
	"fmt"
	"reflect"
)

// StartPosition is the position at which a run begins; see Options.Start.
type StartPosition struct {
	// Load restores the step's weights, moments and random generator. Fit calls it after its own
	// seeding. Nil: they have been restored already, except for the generator.
	Load func() error

	// State is what a [Saver] received with the checkpoint. The run continues exactly there, and
	// the other fields must be zero. Those are for checkpoints of other programs, which have only
	// counts.
	State []byte

	Epoch         int // completed epochs
	Batches       int // micro-batches of the next epoch already trained on
	GlobalStep    int // steps, in the unit of the semantics
	Updates       int // optimizer updates; equal to GlobalStep if steps are updates
	ScheduleSteps int // how often the learning rate has changed
	WindowPhase   int // micro-batches of an unfinished window, if windows continue across epochs

	// LossSum, LossCount and LossMean are the values with which semantics.RunningMean continues.
	LossSum, LossMean float64
	LossCount         int
}

// counts reports whether any field but Load and State is set.
func (s StartPosition) counts() bool {
	s.Load, s.State = nil, nil
	return !reflect.ValueOf(s).IsZero()
}

// Saver writes checkpoints; see Options.Saver. It is called from the training goroutine.
type Saver interface {
	// SaveCheckpoint writes the current state of the step, together with the state of the run, from
	// which a later run begins as Options.Start.State. It returns where the checkpoint is.
	SaveCheckpoint(r *Run, state []byte) (path string, err error)
}

// startAt puts the loop where Options.Start says, if that is set.
func (r *runner) startAt(start *StartPosition) error {
	if start == nil {
		return nil
	}
	s := *start
	if s.State != nil {
		return r.resumeState(s)
	}
	if err := r.load(s); err != nil {
		return err
	}
	if min(s.Epoch, s.Batches, s.GlobalStep, s.Updates, s.ScheduleSteps, s.WindowPhase, s.LossCount) < 0 {
		return wrong("Start", fmt.Sprintf("%+v", s), "no negative number")
	}
	if !r.loop.plan.stream && s.Batches > r.loop.plan.batches {
		return wrong("Start", fmt.Sprintf("%+v", s), "at most the %d batches of an epoch", r.loop.plan.batches)
	}
	if s.WindowPhase >= r.o.Accumulate || s.WindowPhase > 0 && !r.o.Semantics.CarriesWindows() {
		return wrong("Start", fmt.Sprintf("%+v", s), "a window that is under way only where windows run over the ends of "+
			"epochs, and less than Accumulate of it")
	}
	r.loop.startAt(s)
	r.rates.moves = s.ScheduleSteps
	r.losses.running = RunningLoss{Sum: s.LossSum, Mean: s.LossMean, Windows: s.LossCount}
	r.show()
	return nil
}

// load restores the step with StartPosition.Load.
func (r *runner) load(s StartPosition) error {
	if s.Load == nil {
		return nil
	}
	return r.stepError("load the state to start from", s.Load())
}

// startAt puts the loop before a batch.
func (l *loop) startAt(s StartPosition) {
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
	// under EpochsPerSession the end is looked for only after the first step
	l.Control.ShouldTrainingStop = l.reached() && !l.flow.rules.EpochsPerSession
	switch {
	case l.Control.ShouldTrainingStop:
		l.skipTo = theEnd
	case l.Micro > 0:
		l.enter(nextWindow, false)
	default:
		l.enter(epochBegin, false)
	}
}

// checkSaver refuses options that cannot be combined with Start or with a Saver.
func (o *Options) checkSaver() error {
	switch {
	case o.Start != nil && o.Start.State != nil && o.Start.counts():
		return wrong("Start", "State and other fields", "State alone, which has all counts")
	case o.Start != nil && o.ResumeFrom != "":
		return wrong("Start", "set", "nil, since ResumeFrom is set: one of them says where the run begins")
	case o.Saver == nil:
		return nil
	case o.LoadBestAtEnd, o.KeepCheckpoints > 0, o.Pusher != nil, o.ResumeFrom != "", o.AsyncSave,
		o.ProcessingClass != nil:
		return errors.New("trainer: Options.Saver writes checkpoints in its own way, so LoadBestAtEnd, " +
			"KeepCheckpoints, Pusher, ProcessingClass, ResumeFrom and AsyncSave cannot be set with it")
	}
	return nil
}
