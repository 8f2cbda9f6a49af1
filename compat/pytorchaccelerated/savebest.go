package pytorchaccelerated

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// SaveBestModel saves the model whenever an epoch is the best so far by a metric, and loads the
// best one at the end of the run.
type SaveBestModel struct {
	SavePath        string // empty: "best_model.pt"
	WatchMetric     string // of the run history; empty: "eval_loss_epoch"
	GreaterIsBetter bool
	KeepOnTrain     bool // compare with the runs before too: reset_on_train=False
	NoOptimizer     bool // save_optimizer=False
	NoScheduler     bool // save_scheduler=False
	NoLoadAtEnd     bool // load_saved_checkpoint=False

	best watched
}

var (
	_ TrainingRunStartHook    = (*SaveBestModel)(nil)
	_ TrainingRunEpochEndHook = (*SaveBestModel)(nil)
	_ TrainingRunEndHook      = (*SaveBestModel)(nil)
	_ StateSaver              = (*SaveBestModel)(nil)
)

func (s *SaveBestModel) path() string   { return cmp.Or(s.SavePath, "best_model.pt") }
func (s *SaveBestModel) metric() string { return cmp.Or(s.WatchMetric, "eval_loss_epoch") }

// Best is the best value so far and its epoch; ok is false before the first.
func (s *SaveBestModel) Best() (value float64, epoch int, ok bool) {
	return s.best.value, s.best.epoch, s.best.known
}

// OnTrainingRunStart implements [TrainingRunStartHook].
func (s *SaveBestModel) OnTrainingRunStart(r *Run) error {
	if !s.KeepOnTrain && !r.goesOn() {
		s.best = watched{}
	}
	return nil
}

// OnTrainingRunEpochEnd implements [TrainingRunEpochEndHook].
func (s *SaveBestModel) OnTrainingRunEpochEnd(r *Run) error {
	v, err := r.History().LatestMetric(s.metric())
	if err != nil {
		return err
	}
	first := !s.best.known
	if !first && !better(v, s.best.value, s.GreaterIsBetter) {
		return nil
	}
	s.best = watched{v, r.History().CurrentEpoch(), true}
	name, noScheduler := s.metric(), s.NoScheduler
	if r.rules.SaveBestAsLoss {
		if first {
			noScheduler = false
		} else {
			name = "loss"
		}
	}
	return r.SaveCheckpoint(s.path(), CheckpointOptions{NoOptimizer: s.NoOptimizer, NoScheduler: noScheduler,
		Extra: map[string]any{name: v}})
}

// OnTrainingRunEnd implements [TrainingRunEndHook].
func (s *SaveBestModel) OnTrainingRunEnd(r *Run) error {
	if s.NoLoadAtEnd || !s.best.known {
		return nil
	}
	r.Print(fmt.Sprintf("Loading checkpoint with %s: %s from epoch %d", s.metric(), pyfloat.Repr(s.best.value),
		s.best.epoch))
	_, err := r.LoadCheckpoint(s.path(), LoadOptions{})
	return err
}

// MarshalState implements [StateSaver].
func (s *SaveBestModel) MarshalState() ([]byte, error) { return json.Marshal(s.best.state(0)) }

// UnmarshalState implements [StateSaver].
func (s *SaveBestModel) UnmarshalState(text []byte) error {
	var state watchedState
	if err := json.Unmarshal(text, &state); err != nil {
		return err
	}
	s.best = watched{float64(state.Value), state.Epoch, state.Known}
	return nil
}
