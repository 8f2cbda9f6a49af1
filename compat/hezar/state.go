package hezar

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

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

// Map is the state in Hezar's order.
func (s TrainerState) Map() omegaconf.Map {
	m := omegaconf.Map{
		{Key: "epoch", Value: s.Epoch}, {Key: "total_epochs", Value: s.TotalEpochs},
		{Key: "global_step", Value: s.GlobalStep}, {Key: "epoch_step", Value: s.EpochStep},
		{Key: "loss_tracker_sum", Value: s.LossTrackerSum}, {Key: "loss_tracker_avg", Value: s.LossTrackerAvg},
		{Key: "metric_for_best_checkpoint", Value: s.MetricForBestCheckpoint}, {Key: "best_metric_value"},
		{Key: "best_checkpoint"}, {Key: "logs_dir", Value: s.LogsDir},
	}
	if s.BestMetricValue != nil {
		m.Set("best_metric_value", *s.BestMetricValue)
		if s.BestIsInteger {
			m.Set("best_metric_value", int(*s.BestMetricValue))
		}
		m.Set("best_checkpoint", s.BestCheckpoint)
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
	if err := read(m, []key{
		{"epoch", &s.Epoch}, {"total_epochs", &s.TotalEpochs}, {"global_step", &s.GlobalStep},
		{"epoch_step", &s.EpochStep}, {"loss_tracker_sum", &s.LossTrackerSum},
		{"loss_tracker_avg", &s.LossTrackerAvg}, {"metric_for_best_checkpoint", &s.MetricForBestCheckpoint},
		{"best_metric_value", &best}, {"best_checkpoint", &s.BestCheckpoint}, {"logs_dir", &s.LogsDir},
	}); err != nil {
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

// startState is the state that a run begins with: a fresh one, or that of an earlier run in the
// folder, put where the checkpoint was made.
func startState(c TrainerConfig, stepsInEpoch int, logsDir string) (TrainerState, error) {
	fresh := TrainerState{Epoch: 1, TotalEpochs: c.NumEpochs, MetricForBestCheckpoint: c.MetricForBestModel,
		LogsDir: logsDir}
	if c.ResumeFromCheckpoint == "" {
		return fresh, nil
	}
	path := filepath.Join(c.OutputDir, c.CheckpointsDir, stateFile)
	if own := filepath.Join(c.ResumeFromCheckpoint, trainFolder, stateFile); c.ResumeFromCheckpoint != Newest &&
		exists(own) {
		path = own // of the checkpoint, not of where the run got to after it
	}
	s, err := LoadTrainerState(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, err
	}
	if info, err := os.Stat(c.ResumeFromCheckpoint); c.ResumeFromCheckpoint != Newest && err == nil && info.IsDir() {
		// folders are called after their step
		if step, err := strconv.Atoi(filepath.Base(c.ResumeFromCheckpoint)); err == nil && step >= 0 {
			s.GlobalStep = step
		}
		s.Epoch = int(math.Ceil(float64(s.GlobalStep) / float64(stepsInEpoch)))
		s.EpochStep = s.GlobalStep % stepsInEpoch
	}
	if s.EpochStep == 0 {
		s.Epoch++
	}
	return s, nil
}
