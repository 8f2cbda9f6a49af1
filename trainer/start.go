package trainer

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// StartPosition is where in its course a run begins: see Options.Start. Whoever sets it has put the
// step's weights, moments and generator there.
type StartPosition struct {
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
func (f *fit[S, B]) startAt(s StartPosition) error {
	for _, n := range []int{s.Epoch, s.Batches, s.GlobalStep, s.Updates, s.ScheduleSteps, s.WindowPhase, s.LossCount} {
		if n < 0 {
			return &OptionError{"Start", fmt.Sprintf("%+v", s), "no negative number"}
		}
	}
	if !f.m.plan.stream && s.Batches > f.m.plan.batches {
		return &OptionError{"Start", fmt.Sprintf("%+v", s), fmt.Sprintf("at most the %d batches of an epoch",
			f.m.plan.batches)}
	}
	if s.WindowPhase >= f.o.Accumulate || s.WindowPhase > 0 && !f.o.Semantics.CarryWindows {
		return &OptionError{"Start", fmt.Sprintf("%+v", s), "a window that is under way only where windows run over " +
			"the ends of epochs, and less than Accumulate of it"}
	}
	f.m.startAt(s)
	f.scheduleStep = s.ScheduleSteps
	f.losses.running = runningMean{Sum: s.LossSum, Count: s.LossCount, Mean: s.LossMean}
	f.show()
	return nil
}

// startAt puts the machine before a batch.
func (m *machine) startAt(s StartPosition) {
	m.beginEpoch(s.Epoch)
	m.Micro, m.GlobalStep, m.Updates, m.Phase = s.Batches, s.GlobalStep, s.Updates, s.WindowPhase
	m.InEpoch = s.Batches / m.plan.batchesPerStep(m.flow.rules)
	if m.flow.rules.Steps == semantics.Updates {
		m.Updates = s.GlobalStep
	}
	m.LastLogged = s.GlobalStep
	m.Progress = m.progress()
	m.resumed = true
	if m.flow.rules.EpochsPerSession {
		m.plan.epochs += m.Epoch
	}
	m.Control.ShouldTrainingStop = m.reached()
	if m.Control.ShouldTrainingStop {
		m.enter = atFinish
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
