package hezar

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
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
	if t.options.Rules.stateless() {
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
