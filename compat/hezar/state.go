package hezar

import (
	"fmt"
	"reflect"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// TrainerState is where a run stands: checkpoints/trainer_state.yaml.
type TrainerState struct {
	Epoch       int // the running epoch, from 1 on
	TotalEpochs int
	GlobalStep  int // batches so far
	EpochStep   int // batches of this epoch so far

	LossTrackerSum float64 // of the windows' losses since the start of the run
	LossTrackerAvg float64

	MetricForBestCheckpoint string
	BestMetricValue         *float64 // nil: no epoch has ended
	BestIsInteger           bool     // see [Value]
	BestCheckpoint          int      // the GlobalStep of the best evaluation
	LogsDir                 string
}

// keys are the keys of the file in Hezar's order. best is best_metric_value, an integer or not.
func (s *TrainerState) keys(best *any) []key {
	return []key{{"epoch", &s.Epoch}, {"total_epochs", &s.TotalEpochs}, {"global_step", &s.GlobalStep},
		{"epoch_step", &s.EpochStep}, {"loss_tracker_sum", &s.LossTrackerSum},
		{"loss_tracker_avg", &s.LossTrackerAvg}, {"metric_for_best_checkpoint", &s.MetricForBestCheckpoint},
		{"best_metric_value", best}, {"best_checkpoint", &s.BestCheckpoint}, {"logs_dir", &s.LogsDir}}
}

// Map is the state in Hezar's order.
func (s TrainerState) Map() (m omegaconf.Map) {
	var best any
	switch {
	case s.BestIsInteger && s.BestMetricValue != nil:
		best = int(*s.BestMetricValue)
	case s.BestMetricValue != nil:
		best = *s.BestMetricValue
	}
	for _, k := range s.keys(&best) {
		m.Set(k.name, reflect.ValueOf(k.at).Elem().Interface())
	}
	if best == nil {
		m.Set("best_checkpoint", nil)
	}
	return m
}

// Save writes the state, whole or not at all.
func (s TrainerState) Save(path string) error { return writeYAML(path, s.Map()) }

// LoadTrainerState reads a trainer_state.yaml.
func LoadTrainerState(path string) (TrainerState, error) {
	m, err := readYAML(path)
	if err != nil {
		return TrainerState{}, err
	}
	var s TrainerState
	var best any
	if err := read(m, s.keys(&best)); err != nil {
		return s, fmt.Errorf("hezar: %s: %w", path, err)
	}
	if best != nil {
		_, s.BestIsInteger = best.(int64)
		if want, _ := set(&s.BestMetricValue, best); want != "" {
			return s, fmt.Errorf("hezar: %s: best_metric_value is %v; want %s", path, best, want)
		}
	}
	if s.Epoch < 1 || s.GlobalStep < 0 || s.EpochStep < 0 {
		return s, fmt.Errorf("hezar: %s: epoch %d, global_step %d, epoch_step %d are no place in a run", path, s.Epoch,
			s.GlobalStep, s.EpochStep)
	}
	return s, nil
}

// update takes note of an evaluation: update_best_results.
func (s *TrainerState) update(best Value, maximize bool) {
	value := best.Value
	if s.BestMetricValue == nil || maximize && value > *s.BestMetricValue || !maximize && value < *s.BestMetricValue {
		s.BestMetricValue, s.BestIsInteger, s.BestCheckpoint = &value, best.Integer, s.GlobalStep
	}
}
