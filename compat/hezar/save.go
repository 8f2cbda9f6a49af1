package hezar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/internal/torchsave"
)

// Save writes the model, its configuration and preprocessor, the optimizer and the schedule into a
// folder, as Hezar's Trainer.save does. The folder appears atomically: it is written under another
// name, verified and renamed, and its MANIFEST.json lists what belongs to it. With several
// processes, all must call it; the main one writes.
func (t *Trainer[S, B]) Save(path string) error {
	if t.options.Rules.LambdaNotSaved && t.Config.LRLambda != nil {
		return errors.New("hezar: a function cannot be written to train_config.yaml")
	}
	var err error
	if t.options.Group.Main() {
		err = checkpoint.WriteFolder(path, func(dir string) error { return t.write(dir) })
	}
	if err = loops.Together(t.options.Group, err); err != nil {
		return fmt.Errorf("hezar: save %s: %w", path, err)
	}
	return nil
}

// write writes the files of a checkpoint into a folder, except those in without.
func (t *Trainer[S, B]) write(dir string, without ...string) (err error) {
	put := func(name string, is bool, save func(path string) error) {
		if err == nil && is && !slices.Contains(without, name) {
			err = save(filepath.Join(dir, name))
		}
	}
	o, ofRun := &t.options, !t.options.Rules.stateless()
	config := o.ModelConfig
	if c, ok := t.model.(Configured); ok && config == nil {
		config = c.HezarConfig()
	}
	put(configFile, true, t.Config.Save)
	put(modelConfig, config != nil, func(path string) error { return saveYAML(path, config) })
	put(modelFile, true, func(path string) error { return torchsave.WriteModule(path, t.model.Model()) })
	put(preprocessors.Folder, o.Preprocessor != nil, func(string) error { return o.Preprocessor.Save(dir) })
	put(optimizerFile, true, func(path string) error {
		return saveOptimizer(path, t.optimizer, t.LearningRate(), t.scheduler.config.LearningRate, !t.scheduler.none)
	})
	put(schedulerFile, !t.scheduler.none, t.scheduler.save)
	put(datasetFile, o.DatasetConfig != nil, func(path string) error { return saveYAML(path, o.DatasetConfig) })
	put(runFile, ofRun && t.session != nil && t.session.state != nil, func(path string) error {
		return os.WriteFile(path, t.session.state, 0o666)
	})
	put(ownStateFile, ofRun, t.State.Save)
	return err
}

func (t *Trainer[S, B]) saveState() error {
	if !t.options.Group.Main() {
		return nil
	}
	return t.State.Save(filepath.Join(t.Config.OutputDir, t.Config.CheckpointsDir, stateFile))
}

// checkpointPath returns the folder of the current checkpoint: the number of batches, zero-padded
// to the width of the run's total.
func (t *Trainer[S, B]) checkpointPath() string {
	return filepath.Join(t.Config.OutputDir, t.Config.CheckpointsDir,
		fmt.Sprintf("%0*d", len(strconv.Itoa(t.TotalSteps)), t.State.GlobalStep))
}

// PushOptions say what [Trainer.PushToHub] uploads. Zero: everything, to a public repository.
type PushOptions struct {
	NoModel     bool // do not upload the model and its configuration
	NoOptimizer bool // do not upload the optimizer
	NoLogs      bool // do not upload training_logs.csv

	CommitMessage string // empty: "Hezar: Upload training files"
	Private       bool   // make a repository created by the upload private
}

// PushToHub uploads the run's files to a repository on the Hub, which is created if there is none:
// the files of Save, and train/training_logs.csv. They form a single commit, so the repository
// never contains half of them. With several processes, the main one uploads.
func (t *Trainer[S, B]) PushToHub(ctx context.Context, repo string, o PushOptions) error {
	if !t.options.Group.Main() {
		return nil
	}
	o.CommitMessage = cmp.Or(o.CommitMessage, "Hezar: Upload training files")
	dir, err := os.MkdirTemp("", "hezar-")
	if err != nil {
		return prefixed(err)
	}
	defer os.RemoveAll(dir)
	without := []string{schedulerFile, runFile, ownStateFile} // Hezar does not upload these
	if o.NoModel {
		without = append(without, modelFile, modelConfig, preprocessors.Folder)
	}
	if o.NoOptimizer {
		without = append(without, optimizerFile)
	}
	if err = t.write(dir, without...); err == nil && !o.NoLogs {
		err = t.csv.Save(filepath.Join(dir, "train", csvFile))
	}
	push := t.options.Push
	if push == nil {
		push = pushToHub
	}
	if err == nil {
		err = push(ctx, repo, dir, o)
	}
	if err != nil {
		err = fmt.Errorf("hezar: push to %s: %w", repo, err)
	}
	return err
}

func pushToHub(ctx context.Context, repo, dir string, o PushOptions) error {
	_, err := hub.Push(ctx, repo, dir, hub.PushOptions{Message: o.CommitMessage, Private: o.Private})
	return err
}
