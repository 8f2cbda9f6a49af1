package pytorchaccelerated

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// EarlyStopping ends a run when a metric gets no better. A change of no more than the threshold is
// no improvement, and does not move the best value either.
type EarlyStopping struct {
	Patience        int      // early_stopping_patience: epochs in a row without improvement; zero: 1
	Threshold       *float64 // early_stopping_threshold: the least change that is an improvement; nil: 0.01
	WatchMetric     string   // of the run history; empty: "eval_loss_epoch"
	GreaterIsBetter bool
	KeepOnTrain     bool // compare with the runs before too: reset_on_train=False

	best watched
	bad  int
}

var (
	_ TrainingRunStartHook    = (*EarlyStopping)(nil)
	_ TrainingRunEpochEndHook = (*EarlyStopping)(nil)
	_ StateSaver              = (*EarlyStopping)(nil)
)

// watched is the best value of a metric so far.
type watched struct {
	value float64
	epoch int
	known bool
}

func better(v, than float64, greater bool) bool {
	if greater {
		return v > than
	}
	return v < than
}

// Best is the value that the next one is compared with; ok is false before the first.
func (s *EarlyStopping) Best() (value float64, ok bool) { return s.best.value, s.best.known }

// Counter is the number of epochs since the last improvement.
func (s *EarlyStopping) Counter() int { return s.bad }

// OnTrainingRunStart implements [TrainingRunStartHook].
func (s *EarlyStopping) OnTrainingRunStart(r *Run) error {
	if t := s.threshold(); s.Patience < 0 || !(t >= 0) {
		return fmt.Errorf("its Patience is %d and its Threshold %v: want numbers that are not negative", s.Patience, t)
	}
	if !s.KeepOnTrain && !r.goesOn() {
		s.best, s.bad = watched{}, 0
	}
	return nil
}

func (s *EarlyStopping) threshold() float64 {
	if s.Threshold == nil {
		return 0.01
	}
	return *s.Threshold
}

// OnTrainingRunEpochEnd implements [TrainingRunEpochEndHook].
func (s *EarlyStopping) OnTrainingRunEpochEnd(r *Run) error {
	v, err := r.History().LatestMetric(cmp.Or(s.WatchMetric, "eval_loss_epoch"))
	if err != nil {
		return err
	}
	patience := max(1, s.Patience)
	switch change := math.Abs(v - s.best.value); {
	case !s.best.known:
		s.best = watched{v, r.History().CurrentEpoch(), true}
		return nil
	case better(v, s.best.value, s.GreaterIsBetter) && change > s.threshold():
		r.Print(fmt.Sprintf("\nImprovement of %s observed, resetting counter. ", pyfloat.Repr(change)))
		s.best, s.bad = watched{v, r.History().CurrentEpoch(), true}, 0
	default:
		r.Print("No improvement above threshold observed, incrementing counter. ")
		s.bad++
	}
	r.Print(fmt.Sprintf("Early stopping counter: %d/%d", s.bad, patience))
	if s.bad >= patience {
		return StopTraining(fmt.Sprintf("Stopping training due to no improvement after %d epochs", patience))
	}
	return nil
}

type watchedState struct {
	Value number `json:"best_metric"`
	Epoch int    `json:"best_metric_epoch"`
	Known bool   `json:"known"`
	Bad   int    `json:"early_stopping_patience_counter,omitempty"`
}

func (w watched) state(bad int) watchedState {
	return watchedState{number(w.value), w.epoch, w.known, bad}
}

// MarshalState implements [StateSaver].
func (s *EarlyStopping) MarshalState() ([]byte, error) { return json.Marshal(s.best.state(s.bad)) }

// UnmarshalState implements [StateSaver].
func (s *EarlyStopping) UnmarshalState(text []byte) error {
	var state watchedState
	if err := json.Unmarshal(text, &state); err != nil {
		return err
	}
	s.best, s.bad = watched{float64(state.Value), state.Epoch, state.Known}, state.Bad
	return nil
}
