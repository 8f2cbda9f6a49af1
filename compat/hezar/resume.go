package hezar

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/trainer"
)

// Where a run continues: the state that it begins with, the checkpoint whose weights it takes, and
// its place in the loop.

// startState is the state that a run begins with: a fresh one, or that of an earlier run in the
// folder, put where the checkpoint was made.
func startState(c TrainerConfig, stepsInEpoch int, logsDir string) (TrainerState, error) {
	fresh := TrainerState{Epoch: 1, TotalEpochs: c.NumEpochs, MetricForBestCheckpoint: c.MetricForBestModel,
		LogsDir: logsDir}
	if c.ResumeFromCheckpoint == "" {
		return fresh, nil
	}
	named := c.ResumeFromCheckpoint != Newest && isFolder(c.ResumeFromCheckpoint)
	path := filepath.Join(c.OutputDir, c.CheckpointsDir, stateFile)
	if own := filepath.Join(c.ResumeFromCheckpoint, trainFolder, stateFile); named && exists(own) {
		path = own // of the checkpoint, not of where the run got to after it
	}
	s, err := LoadTrainerState(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, err
	}
	if named {
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

// checkpoint is the folder that a run continues from; empty: none.
func (t *Trainer[S, B]) checkpoint() (string, error) {
	c := &t.Config
	switch c.ResumeFromCheckpoint {
	case "":
		return "", nil
	case Newest:
		if t.State.GlobalStep == 0 {
			return "", nil
		}
		dir := filepath.Join(c.OutputDir, c.CheckpointsDir, stepName(t.State.GlobalStep, t.TotalSteps))
		if isFolder(dir) {
			return dir, verify(dir)
		}
		if t.options.Rules.MissingWeightsPass {
			return "", nil
		}
		return "", fmt.Errorf("hezar: ResumeFromCheckpoint: %s says that batch %d was saved, but there is no %s: "+
			"name another checkpoint, or resume with the same NumEpochs and MaxSteps",
			filepath.Join(c.OutputDir, c.CheckpointsDir, stateFile), t.State.GlobalStep, dir)
	}
	if !isFolder(c.ResumeFromCheckpoint) {
		return "", refuse("ResumeFromCheckpoint", c.ResumeFromCheckpoint, "hezar.Newest or the folder of a checkpoint")
	}
	return c.ResumeFromCheckpoint, verify(c.ResumeFromCheckpoint)
}

// verify refuses a damaged checkpoint. Those of Python have no manifest to compare with.
func verify(dir string) error {
	if err := checkpoint.Verify(dir); err != nil && !errors.Is(err, checkpoint.ErrNoManifest) {
		return fmt.Errorf("hezar: ResumeFromCheckpoint: %w; name an older one", err)
	}
	return nil
}

// restore finds out where the run continues that a checkpoint is of: exactly there, if it has the
// state of the run. Others have counts alone, and those inside a window are taken back to the
// window's first batch, since no checkpoint holds gradients.
func (t *Trainer[S, B]) restore(from string) (err error) {
	if t.from = from; from == "" {
		return nil
	}
	r := &t.options.Rules
	if !r.stateless() {
		t.runState, err = os.ReadFile(filepath.Join(from, trainFolder, runFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
		}
	}
	if t.runState == nil && !r.SaveInsideWindow {
		back := t.State.EpochStep % t.Config.GradientAccumulationSteps
		t.State.EpochStep -= back
		t.State.GlobalStep -= back
	}
	return nil
}

// windows is the number of windows up to a batch of the run.
func (t *Trainer[S, B]) windows(step int) int {
	g := t.Config.GradientAccumulationSteps
	return step/t.StepsInEpoch*((t.StepsInEpoch+g-1)/g) + step%t.StepsInEpoch/g
}

// start is where the run begins; nil: with its first batch.
func (t *Trainer[S, B]) start() *trainer.StartPosition {
	s := &t.State
	switch {
	case t.runState != nil:
		return &trainer.StartPosition{State: t.runState}
	case s.GlobalStep == 0:
		return nil
	}
	p := &trainer.StartPosition{Epoch: s.Epoch - 1, Batches: s.EpochStep, GlobalStep: s.GlobalStep,
		LossMean: t.loss.Mean, LossSum: t.loss.Sum, LossCount: t.loss.Windows}
	if s.EpochStep == 0 && s.GlobalStep == s.Epoch*t.NumBatches { // the epoch of State has ended
		p.Epoch++
	}
	return p
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
