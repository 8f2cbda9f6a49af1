package pytorchaccelerated

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// EarlyStopping ends a run when a metric stops improving. A change of no more than the threshold
// is not an improvement, and does not change the best value either.
type EarlyStopping struct {
	Patience        int      // early_stopping_patience: consecutive epochs without improvement; zero: 1
	Threshold       *float64 // early_stopping_threshold: the least change that is an improvement; nil: 0.01
	WatchMetric     string   // of the run history; empty: "eval_loss_epoch"
	GreaterIsBetter bool
	KeepOnTrain     bool // also compare with previous runs: reset_on_train=False

	watched
}

// watched is the best value of a metric so far, as part of a callback's state.
type watched struct {
	value number
	epoch int
	known bool
	bad   int // consecutive epochs without improvement
}

// watchedState is a watched in a checkpoint.
type watchedState struct {
	Value number `json:"best_metric"`
	Epoch int    `json:"best_metric_epoch"`
	Known bool   `json:"known"`
	Bad   int    `json:"early_stopping_patience_counter,omitempty"`
}

func (w *watched) best() (value float64, epoch int, ok bool) {
	return float64(w.value), w.epoch, w.known
}

func (w *watched) MarshalState() ([]byte, error) {
	return json.Marshal(watchedState{w.value, w.epoch, w.known, w.bad})
}

func (w *watched) UnmarshalState(text []byte) error {
	var s watchedState
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*w = watched{s.Value, s.Epoch, s.Known, s.Bad}
	return nil
}

// begin forgets previous runs, unless they count or this run resumes one.
func (w *watched) begin(r *Run, keep bool) {
	if !keep && !r.resumed {
		*w = watched{}
	}
}

func better(v, than float64, greater bool) bool {
	if greater {
		return v > than
	}
	return v < than
}

// Best returns the value that the next one is compared with; ok is false before the first.
func (s *EarlyStopping) Best() (value float64, ok bool) { return float64(s.value), s.known }

// Counter returns the number of epochs since the last improvement.
func (s *EarlyStopping) Counter() int { return s.bad }

func (s *EarlyStopping) OnTrainingRunStart(r *Run) error {
	if t := *cmp.Or(s.Threshold, new(0.01)); s.Patience < 0 || !(t >= 0) {
		return fmt.Errorf("its Patience is %d and its Threshold %v: want numbers that are not negative", s.Patience, t)
	}
	s.begin(r, s.KeepOnTrain)
	return nil
}

func (s *EarlyStopping) OnTrainingRunEpochEnd(r *Run) error {
	v, err := r.History().LatestMetric(cmp.Or(s.WatchMetric, "eval_loss_epoch"))
	if err != nil {
		return err
	}
	patience := max(1, s.Patience)
	switch change := math.Abs(v - float64(s.value)); {
	case !s.known:
		s.watched = watched{number(v), r.History().CurrentEpoch(), true, s.bad}
		return nil
	case better(v, float64(s.value), s.GreaterIsBetter) && change > *cmp.Or(s.Threshold, new(0.01)):
		r.Print(fmt.Sprintf("\nImprovement of %s observed, resetting counter. ", pyfloat.Repr(change)))
		s.watched = watched{number(v), r.History().CurrentEpoch(), true, 0}
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
