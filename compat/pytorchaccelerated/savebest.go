package pytorchaccelerated

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// SaveBestModel saves the model whenever an epoch is the best so far by a metric, and loads the
// best one at the end of the run.
type SaveBestModel struct {
	SavePath        string // empty: "best_model.pt"
	WatchMetric     string // of the run history; empty: "eval_loss_epoch"
	GreaterIsBetter bool
	KeepOnTrain     bool // also compare with previous runs: reset_on_train=False
	NoOptimizer     bool // save_optimizer=False
	NoScheduler     bool // save_scheduler=False
	NoLoadAtEnd     bool // load_saved_checkpoint=False

	watched
}

func (s *SaveBestModel) path() string   { return cmp.Or(s.SavePath, "best_model.pt") }
func (s *SaveBestModel) metric() string { return cmp.Or(s.WatchMetric, "eval_loss_epoch") }

// Best returns the best value so far and its epoch; ok is false before the first.
func (s *SaveBestModel) Best() (value float64, epoch int, ok bool) { return s.best() }

func (s *SaveBestModel) OnTrainingRunStart(r *Run) error {
	s.begin(r, s.KeepOnTrain)
	return nil
}

func (s *SaveBestModel) OnTrainingRunEpochEnd(r *Run) error {
	v, err := r.History().LatestMetric(s.metric())
	if err != nil {
		return err
	}
	first := !s.known
	if !first && !better(v, float64(s.value), s.GreaterIsBetter) {
		return nil
	}
	s.watched = watched{number(v), r.History().CurrentEpoch(), true, 0}
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

func (s *SaveBestModel) OnTrainingRunEnd(r *Run) error {
	if s.NoLoadAtEnd || !s.known {
		return nil
	}
	r.Print(fmt.Sprintf("Loading checkpoint with %s: %s from epoch %d", s.metric(), pyfloat.Repr(float64(s.value)),
		s.epoch))
	_, err := r.LoadCheckpoint(s.path(), LoadOptions{})
	return err
}
