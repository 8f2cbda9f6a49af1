package hezar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/trainer"
)

// Where a run begins: its state, the weights that it takes, and its place in the loop.

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
	checkpoints, otherRun := filepath.Dir(path), false
	if own := filepath.Join(c.ResumeFromCheckpoint, ownStateFile); named && exists(own) {
		path = own // of the checkpoint, not of where the run got to after it
		otherRun = !sameFolder(filepath.Join(c.ResumeFromCheckpoint, ".."), checkpoints)
	}
	s, err := LoadTrainerState(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, err
	}
	if otherRun { // its logs stay as they are
		s.LogsDir = logsDir
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

// checkpoint is the folder that a run continues from; empty: none. A damaged one is refused; those
// of Python have no manifest to compare with.
func (t *Trainer[S, B]) checkpoint() (dir string, err error) {
	c := &t.Config
	dir = c.ResumeFromCheckpoint
	switch {
	case dir == "" || dir == Newest && t.State.GlobalStep == 0:
		return "", nil
	case dir == Newest:
		if dir = t.checkpointPath(); isFolder(dir) {
			break
		}
		if t.options.Rules.MissingWeightsPass {
			return "", nil
		}
		return "", fmt.Errorf("hezar: ResumeFromCheckpoint: %s says that batch %d was saved, but there is no %s: "+
			"name another checkpoint, or resume with the same NumEpochs and MaxSteps",
			filepath.Join(c.OutputDir, c.CheckpointsDir, stateFile), t.State.GlobalStep, dir)
	case !isFolder(dir):
		return "", refuse("ResumeFromCheckpoint", dir, "hezar.Newest or the folder of a checkpoint")
	}
	if err := checkpoint.Verify(dir); err != nil && !errors.Is(err, checkpoint.ErrNoManifest) {
		return "", fmt.Errorf("hezar: ResumeFromCheckpoint: %w; name an older one", err)
	}
	return dir, nil
}

// restore finds out where the run continues that a checkpoint is of: exactly there, if it has the
// state of the run. Others have counts alone, and those inside a window are taken back to the
// window's first batch, since no checkpoint holds gradients.
func (t *Trainer[S, B]) restore() (err error) {
	r := &t.options.Rules
	if t.from == "" {
		return nil
	}
	if !r.stateless() {
		t.runState, err = os.ReadFile(filepath.Join(t.from, runFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
		}
	}
	if t.runState != nil {
		var saved processStates
		err := json.Unmarshal(t.runState, &saved)
		if err == nil {
			err = loops.Share(t.options.Group, saved.Processes, (*json.RawMessage)(&t.runState))
		}
		if err != nil {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %s: %w", t.from, err)
		}
	}
	if t.runState == nil && !r.SaveInsideWindow {
		back := t.State.EpochStep % t.Config.GradientAccumulationSteps
		t.State.EpochStep -= back
		t.State.GlobalStep -= back
	}
	return nil
}

// processStates is what gotrainer_state.json is of a run on several processes: the state of each.
type processStates struct {
	Processes []json.RawMessage `json:"processes"`
}

// windows is the number of windows up to a batch of the run.
func (t *Trainer[S, B]) windows(step int) int {
	g := t.Config.GradientAccumulationSteps
	return step/t.StepsInEpoch*((t.StepsInEpoch-1)/g+1) + step%t.StepsInEpoch/g
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

func sameFolder(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// loadWeights fills the model from a checkpoint, or a fresh one from InitWeightsFrom.
func (t *Trainer[S, B]) loadWeights() error {
	source := t.Config.InitWeightsFrom
	switch {
	case t.from != "":
		w, err := pretrained.OpenFile(filepath.Join(t.from, modelFile))
		if err == nil {
			defer w.Close() //nolint:errcheck // it was only read
			if err = t.untie(w); err == nil {
				_, err = nn.LoadStateDict(t.model.Model(), w, nn.LoadOptions{})
			}
		}
		if err != nil {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
		}
		t.options.Logger.Info("Resuming training from checkpoint", "path", t.from)
	case source != "" && (t.Config.ResumeFromCheckpoint == "" || t.State.GlobalStep == 0):
		if err := t.initWeights(source); err != nil {
			return fmt.Errorf("hezar: InitWeightsFrom: %w", err)
		}
	}
	return nil
}

// untie has a model of which one weight may be two become what a file holds.
func (t *Trainer[S, B]) untie(w *pretrained.Weights) error {
	if own, ok := t.model.(interface {
		untie(w *pretrained.Weights) error
	}); ok {
		return own.untie(w)
	}
	return nil
}

// initWeights takes over what fits of a model of the same kind, in a folder or on the Hub.
func (t *Trainer[S, B]) initWeights(source string) (err error) {
	get := t.options.Fetch
	if get == nil || isFolder(source) {
		get = repository.Find
	}
	dir, err := get(context.Background(), source)
	if err != nil {
		return err
	}
	w, err := pretrained.Open(dir)
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // it was only read
	if err := t.untie(w); err != nil {
		return err
	}
	model := t.model.Model()
	options := nn.LoadOptions{IgnoreMissing: true, IgnoreUnexpected: true, IgnoreMismatched: true}
	if t.options.Rules.WeightsByPosition {
		if t.initReport, err = nn.LoadStateDict(model, w, nn.LoadOptions{}); err == nil {
			return nil
		}
		options = repository.ByPosition(model, w)
	}
	if t.initReport, err = nn.LoadStateDict(model, w, options); err != nil {
		return err
	}
	r := t.initReport
	if len(r.Loaded) == 0 {
		return fmt.Errorf("%s has no weight of this model: none of its %d names occurs here in the same shape; want a "+
			"model of the same kind", w.Path(), len(w.Contents()))
	}
	if r.Missing != nil || r.Mismatched != nil || r.Unexpected != nil {
		const said = "Partially loading the weights as the model architecture and the given state dict are incompatible"
		t.options.Logger.Warn(said, "report", r.String())
		_, _ = fmt.Fprintf(t.options.Warnings, "hezar: InitWeightsFrom %s: %s; what is missing or has another shape "+
			"keeps its random values:\n%s\n", source, said, r)
	}
	return nil
}
