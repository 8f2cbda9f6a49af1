package hezar

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/hub"
)

// PushOptions say what [Trainer.PushToHub] uploads. The zero value is Hezar's default: everything,
// to a public repository.
type PushOptions struct {
	NoModel     bool // leave the model and its configuration out
	NoOptimizer bool // leave the optimizer out
	NoLogs      bool // leave training_logs.csv out

	CommitMessage string // empty: "Hezar: Upload training files"
	Private       bool   // of a repository that the upload makes
}

// PushToHub uploads the run's files to a repository of the Hub, which is made if there is none: the
// files of Save, and train/training_logs.csv. All of them make one commit, so the repository never
// has half of them.
func (t *Trainer[S, B]) PushToHub(ctx context.Context, repo string, o PushOptions) error {
	if o.CommitMessage == "" {
		o.CommitMessage = "Hezar: Upload training files"
	}
	dir, err := os.MkdirTemp("", "hezar-")
	if err != nil {
		return fmt.Errorf("hezar: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := t.write(dir); err != nil {
		return fmt.Errorf("hezar: push to %s: %w", repo, err)
	}
	// which Hezar does not upload
	remove := []string{filepath.Join(trainFolder, schedulerFile), filepath.Join(trainFolder, runFile),
		filepath.Join(trainFolder, stateFile)}
	if o.NoModel {
		remove = append(remove, modelFile, modelConfig, "preprocessor")
	}
	if o.NoOptimizer {
		remove = append(remove, filepath.Join(trainFolder, optimizerFile))
	}
	for _, name := range remove {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("hezar: %w", err)
		}
	}
	if !o.NoLogs {
		if err := t.csv.Save(filepath.Join(dir, trainFolder, csvFile)); err != nil {
			return err
		}
	}
	push := t.options.Push
	if push == nil {
		push = pushToHub
	}
	if err := push(ctx, repo, dir, o); err != nil {
		return fmt.Errorf("hezar: push to %s: %w", repo, err)
	}
	return nil
}

func pushToHub(ctx context.Context, repo, dir string, o PushOptions) error {
	_, err := hub.Push(ctx, repo, dir, hub.PushOptions{Message: o.CommitMessage, Private: o.Private})
	return err
}

func fetchFromHub(ctx context.Context, repo string) (string, error) {
	r, err := hub.Fetch(ctx, repo, &hub.FetchOptions{Allow: []string{modelFile, "model.safetensors", modelConfig}})
	if err != nil {
		return "", err
	}
	return r.Dir, nil
}

// LoadCSVLogs reads training_logs.csv of a folder of logs; empty: this run's.
func (t *Trainer[S, B]) LoadCSVLogs(dir string) (*CSVLog, error) {
	if dir == "" {
		dir = t.State.LogsDir
	}
	return LoadCSVLog(filepath.Join(dir, csvFile))
}
