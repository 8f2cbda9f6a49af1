package hezar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
)

// Save writes the model, its configuration and preprocessor, the optimizer and the schedule into a
// folder, as Hezar's Trainer.save does. The folder is whole or not there: it is written aside,
// verified and renamed, and its MANIFEST.json says what belongs to it.
func (t *Trainer[S, B]) Save(path string) error {
	if t.options.Rules.LambdaNotSaved && t.Config.LRLambda != nil {
		return errors.New("hezar: a function cannot be written to train_config.yaml")
	}
	if err := checkpoint.WriteFolder(path, t.write); err != nil {
		return fmt.Errorf("hezar: save %s: %w", path, err)
	}
	return nil
}

func (t *Trainer[S, B]) write(dir string) error {
	train := filepath.Join(dir, trainFolder)
	if err := t.Config.Save(filepath.Join(train, configFile)); err != nil {
		return err
	}
	if config := t.modelConfig(); config != nil {
		if err := writeYAML(filepath.Join(dir, modelConfig), config); err != nil {
			return err
		}
	}
	if err := saveModel(filepath.Join(dir, modelFile), t.model.Model()); err != nil {
		return err
	}
	if t.options.Preprocessor != nil {
		if err := t.options.Preprocessor.Save(dir); err != nil {
			return err
		}
	}
	if err := saveOptimizer(filepath.Join(train, optimizerFile), t.optimizer, t.LearningRate(), t.rate,
		t.scheduler != nil); err != nil {
		return err
	}
	if t.scheduler != nil {
		if err := t.scheduler.save(filepath.Join(train, schedulerFile)); err != nil {
			return err
		}
	}
	if t.options.DatasetConfig != nil {
		if err := writeYAML(filepath.Join(train, datasetFile), t.options.DatasetConfig); err != nil {
			return err
		}
	}
	if t.options.Rules.LossCountFromSteps {
		return nil
	}
	if s := t.session; s != nil && s.state != nil {
		if err := os.WriteFile(filepath.Join(train, runFile), s.state, 0o666); err != nil {
			return err
		}
	}
	return t.State.Save(filepath.Join(train, stateFile))
}

func (t *Trainer[S, B]) modelConfig() omegaconf.Map {
	if t.options.ModelConfig != nil {
		return t.options.ModelConfig
	}
	if c, ok := t.model.(Configured); ok {
		return c.HezarConfig()
	}
	return nil
}

// checkpoint is the folder that a run goes on from; empty: none.
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
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, verify(dir)
		}
		if t.options.Rules.MissingWeightsPass {
			return "", nil
		}
		return "", fmt.Errorf("hezar: ResumeFromCheckpoint: %s says that batch %d was saved, but there is no %s: "+
			"name another checkpoint, or resume with the same NumEpochs and MaxSteps",
			filepath.Join(c.OutputDir, c.CheckpointsDir, stateFile), t.State.GlobalStep, dir)
	}
	if info, err := os.Stat(c.ResumeFromCheckpoint); err != nil || !info.IsDir() {
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

func (t *Trainer[S, B]) saveState() error {
	return t.State.Save(filepath.Join(t.Config.OutputDir, t.Config.CheckpointsDir, stateFile))
}

// checkpointPath is the folder of a checkpoint: the number of batches, with as many digits as that
// of the whole run.
func (t *Trainer[S, B]) checkpointPath() string {
	return filepath.Join(t.Config.OutputDir, t.Config.CheckpointsDir, stepName(t.State.GlobalStep, t.TotalSteps))
}

func stepName(step, total int) string {
	return fmt.Sprintf("%0*d", len(strconv.Itoa(total)), step)
}

// restore finds out where the run continues that a checkpoint is of: exactly there, if it has the
// state of the run. Others have counts alone, and those inside a window are taken back to the
// window's first batch, since no checkpoint holds gradients.
func (t *Trainer[S, B]) restore(from string) (err error) {
	if t.from = from; from == "" {
		return nil
	}
	r := &t.options.Rules
	if !r.LossCountFromSteps {
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

// loadWeights fills the model from a checkpoint, or a fresh one from InitWeightsFrom.
func (t *Trainer[S, B]) loadWeights(from string) error {
	switch {
	case from != "":
		w, err := pretrained.OpenFile(filepath.Join(from, modelFile))
		if err != nil {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
		}
		defer w.Close() //nolint:errcheck // it was only read
		if _, err := nn.LoadStateDict(t.model.Model(), w, nn.LoadOptions{}); err != nil {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
		}
		t.options.Logger.Info("Resuming training from checkpoint", "path", from)
	case t.Config.InitWeightsFrom != "" && t.Config.ResumeFromCheckpoint == "" || t.Config.InitWeightsFrom != "" &&
		t.State.GlobalStep == 0:
		return t.initWeights()
	}
	return nil
}

// initWeights takes over what fits of a model of the same kind.
func (t *Trainer[S, B]) initWeights() error {
	dir, err := t.fetch(t.Config.InitWeightsFrom)
	if err != nil {
		return err
	}
	w, err := pretrained.Open(dir)
	if err != nil {
		return fmt.Errorf("hezar: InitWeightsFrom: %w", err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	model := t.model.Model()
	if t.options.Rules.WeightsByPosition {
		if t.initReport, err = nn.LoadStateDict(model, w, nn.LoadOptions{}); err == nil {
			return nil
		}
		t.initReport, err = nn.LoadStateDict(model, w, byPosition(model, w))
	} else {
		t.initReport, err = nn.LoadStateDict(model, w, nn.LoadOptions{IgnoreMissing: true, IgnoreUnexpected: true,
			IgnoreMismatched: true})
	}
	if err != nil {
		return fmt.Errorf("hezar: InitWeightsFrom: %w", err)
	}
	if len(t.initReport.Loaded) == 0 {
		return fmt.Errorf("hezar: InitWeightsFrom: %s has no weight of this model: none of its %d names occurs here "+
			"in the same shape; want a model of the same kind", w.Path(), len(w.Contents()))
	}
	if t.initReport.Missing != nil || t.initReport.Mismatched != nil || t.initReport.Unexpected != nil {
		t.options.Logger.Warn("Partially loading the weights as the model architecture and the given state dict are "+
			"incompatible", "report", t.initReport.String())
	}
	return nil
}

// byPosition matches weights by their place, as Hezar does where names or shapes do not fit.
func byPosition(model any, w *pretrained.Weights) nn.LoadOptions {
	names := map[string]string{}
	contents := w.Contents()
	for i, own := range nn.StateDict(model) {
		if i < len(contents) && slices.Equal(contents[i].Shape, own.Tensor.Shape()) {
			names[contents[i].Name] = own.Name
		}
	}
	return nn.LoadOptions{IgnoreMissing: true, IgnoreUnexpected: true, Rename: func(name string) string {
		return names[name]
	}}
}
