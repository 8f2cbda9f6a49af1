package hezar

import (
	"fmt"
	"reflect"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// TrainerState is the progress of a run: checkpoints/trainer_state.yaml.
type TrainerState struct {
	Epoch       int // the current epoch, from 1
	TotalEpochs int
	GlobalStep  int // batches so far
	EpochStep   int // batches of this epoch so far

	LossTrackerSum float64 // sum of the windows' losses since the start of the run
	LossTrackerAvg float64

	MetricForBestCheckpoint string
	BestMetricValue         *float64 // nil: no epoch has ended yet
	BestIsInteger           bool     // see [Value]
	BestCheckpoint          int      // the GlobalStep of the best evaluation
	LogsDir                 string
}

// fields returns the keys of the file in Hezar's order.
func (s *TrainerState) fields() []configfile.Field {
	return configfile.Fields("epoch", &s.Epoch, "total_epochs", &s.TotalEpochs, "global_step", &s.GlobalStep,
		"epoch_step", &s.EpochStep, "loss_tracker_sum", &s.LossTrackerSum, "loss_tracker_avg", &s.LossTrackerAvg,
		"metric_for_best_checkpoint", &s.MetricForBestCheckpoint, "best_metric_value", &s.BestMetricValue,
		"best_checkpoint", &s.BestCheckpoint, "logs_dir", &s.LogsDir)
}

// Map returns the state in Hezar's order.
func (s TrainerState) Map() (m omegaconf.Map) {
	for _, f := range s.fields() { // including those without a value
		m.Set(f.Key, reflect.ValueOf(f.At).Elem().Interface())
	}
	switch {
	case s.BestMetricValue == nil:
		m.Set("best_metric_value", nil)
		m.Set("best_checkpoint", nil)
	case s.BestIsInteger:
		m.Set("best_metric_value", int(*s.BestMetricValue))
	default:
		m.Set("best_metric_value", *s.BestMetricValue)
	}
	return m
}

// Save writes the state atomically.
func (s TrainerState) Save(path string) error { return saveYAML(path, s.Map()) }

// LoadTrainerState reads a trainer_state.yaml.
func LoadTrainerState(path string) (TrainerState, error) {
	m, err := configfile.Load(path)
	if err != nil {
		return TrainerState{}, prefixed(err)
	}
	var s TrainerState
	err = configfile.DecodeAll(m, s.fields())
	best, _ := m.Get("best_metric_value")
	_, s.BestIsInteger = best.(int64)
	if err == nil && (s.Epoch < 1 || s.GlobalStep < 0 || s.EpochStep < 0) {
		err = fmt.Errorf("epoch %d, global_step %d, epoch_step %d are no place in a run", s.Epoch, s.GlobalStep,
			s.EpochStep)
	}
	if err != nil {
		return s, fmt.Errorf("hezar: %s: %w", path, err)
	}
	return s, nil
}

// update records the result of an evaluation: update_best_results.
func (s *TrainerState) update(best Value, maximize bool) {
	value := best.Value
	if s.BestMetricValue == nil || maximize && value > *s.BestMetricValue || !maximize && value < *s.BestMetricValue {
		s.BestMetricValue, s.BestIsInteger, s.BestCheckpoint = &value, best.Integer, s.GlobalStep
	}
}
