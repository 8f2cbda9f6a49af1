package pymarlin

import (
	"github.com/gotrainer/gotrainer/trainer"
)

// session hears the events of a run and calls what belongs to them.
type session[B any] struct {
	pass[B]
	epoch int // the current one
	// generators and stats as they were before the current epoch and its validation; nil: neither
	// has begun
	beforeEpoch, beforeValidation *place
}

// EpochBegin begins an epoch, unless the run continues inside it.
func (s *session[B]) EpochBegin(r *trainer.Run) (err error) {
	t := s.t
	s.epoch = r.EpochIndex
	if s.from != nil {
		setTraining(t.module, true)
		return nil
	}
	if s.beforeEpoch, err = t.here(); err != nil {
		return err
	}
	t.logger.Info("Training", "epoch", s.epoch)
	t.stats.Update("epoch", float64(s.epoch), true)
	if h, ok := t.module.(TrainEpochBeginHook); ok {
		if err := scoped(func() error { return h.OnBeginTrainEpoch(t.GlobalStepsFinished(), s.epoch) }); err != nil {
			return err
		}
	}
	setTraining(t.module, true)
	return nil
}

// EpochDone validates, and ends the epoch.
func (s *session[B]) EpochDone(*trainer.Run) error {
	t := s.t
	if s.from != nil {
		if len(s.from.outputs.Tensors) > 0 {
			s.outputs = s.from.outputs
		}
		s.from = nil
	}
	var err error
	if s.beforeValidation, err = t.here(); err != nil {
		return err
	}
	t.logger.Info("Validating", "epoch", s.epoch)
	last, err := t.Validate(s.ctx)
	if err != nil {
		return err
	}
	last.free()
	defer s.drop()
	if h, ok := t.module.(TrainEpochEndHook); ok { // after the validation, as in PyMarlin
		if err := scoped(func() error { return h.OnEndTrainEpoch(t.GlobalStepsFinished(), s.outputs) }); err != nil {
			return err
		}
	}
	if err := t.stats.LogLongStats(t.GlobalStepsFinished()); err != nil {
		return err
	}
	t.lastEpoch = s.epoch
	return nil
}

func (s *session[B]) drop() {
	s.outputs.free()
	s.outputs = Collected{}
	s.beforeValidation = nil
}

// SaveCheckpoint writes the checkpoint of an epoch that has ended or, where the run is interrupted
// inside one, of where it stands. That has the number of its epoch too, whose own takes its place
// later.
func (s *session[B]) SaveCheckpoint(r *trainer.Run, state []byte) (string, error) {
	t := s.t
	index := t.lastEpoch
	at, err := t.here()
	if err != nil {
		return "", err
	}
	switch ended := t.lastEpoch == s.epoch; {
	case ended:
	case t.options.InexactResume:
		return "", nil // the rest of the epoch would be left out
	case r.Batches == 0: // the epoch will begin again
		if s.beforeEpoch != nil {
			at = s.beforeEpoch
		}
	default:
		if s.beforeValidation != nil {
			at = s.beforeValidation
			at.outputs = s.outputs
		} else {
			at.pass = s.random
		}
		if s.from != nil { // it has not got any further
			at = s.from
		}
		index, at.run = s.epoch, state
	}
	t.place = at
	return t.save(at, index, s.ctx.Err() != nil)
}
