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

// Where a run begins: its state, its weights, and its position in the loop.

// startState returns the initial state of a run: a fresh one, or that of the earlier run in the
// folder, set back to the checkpoint.
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
		path = own // the state at the checkpoint, not the latest one of that run
		otherRun = !sameFolder(filepath.Join(c.ResumeFromCheckpoint, ".."), checkpoints)
	}
	s, err := LoadTrainerState(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, err
	}
	if otherRun { // its logs are not continued
		s.LogsDir = logsDir
	}
	if named {
		// Folders are named after their step.
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

// checkpoint returns the folder that the run resumes from, or "" for none. A damaged checkpoint is
// refused; those written by Python have no manifest to check.
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

// restore determines where the run resumes. If the checkpoint has the state of the run, that is the
// exact position. Others hold only counts, and if these lie inside an accumulation window, the run
// goes back to the window's first batch, because no checkpoint holds gradients.
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

// processStates is gotrainer_state.json for a run with several processes: the state of each.
type processStates struct {
	Processes []json.RawMessage `json:"processes"`
}

// windows returns the number of accumulation windows up to a batch of the run.
func (t *Trainer[S, B]) windows(step int) int {
	g := t.Config.GradientAccumulationSteps
	return step/t.StepsInEpoch*((t.StepsInEpoch-1)/g+1) + step%t.StepsInEpoch/g
}

// start returns the position at which the run begins; nil: the beginning.
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
	if s.EpochStep == 0 && s.GlobalStep == s.Epoch*t.NumBatches { // the epoch in State is complete
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

// loadWeights loads the weights of a checkpoint, or initial weights from InitWeightsFrom.
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

// untie separates tied weights of the model if they differ in a file.
func (t *Trainer[S, B]) untie(w *pretrained.Weights) error {
	if own, ok := t.model.(interface {
		untie(w *pretrained.Weights) error
	}); ok {
		return own.untie(w)
	}
	return nil
}

// initWeights loads the matching weights of a model of the same kind, from a folder or the Hub.
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
