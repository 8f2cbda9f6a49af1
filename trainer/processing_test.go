package trainer_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// words is a tokenizer that writes one file, or fails.
type words struct{ err error }

func (w *words) Save(dir string) error {
	if w.err != nil {
		return w.err
	}
	return os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{}"), 0o600)
}

// startPusher records the start of the run and the uploads.
type startPusher struct {
	refuses error
	started []checkpoint.UploadRun
	files   []string // files beside each model that was pushed
}

func (p *startPusher) Start(_ context.Context, run checkpoint.UploadRun) error {
	p.started = append(p.started, run)
	return p.refuses
}

func (p *startPusher) Push(_ context.Context, u checkpoint.Upload) error {
	_, err := os.Stat(filepath.Join(u.Folder, "tokenizer.json"))
	if err == nil {
		p.files = append(p.files, filepath.Base(u.Folder))
	}
	return err
}

func TestProcessingClassIsInCheckpointsPushesAndTheFinalFolder(t *testing.T) {
	dir, final := t.TempDir(), filepath.Join(t.TempDir(), "models", "final")
	pusher := &startPusher{}
	fit, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{OutputDir: dir, MaxSteps: 4,
		BatchSize:  2,
		Accumulate: 3, Save: trainer.Every(2, trainer.Update), ProcessingClass: &words{}, Pusher: pusher,
		PushAlways: true, Progress: io.Discard})
	require.NoError(t, err)
	result, err := fit.Fit(t.Context(), trainertest.Samples(12), nil)
	require.NoError(t, err)
	assert.Empty(t, result.Warnings)
	for _, name := range []string{"checkpoint-2", "checkpoint-4"} {
		assert.FileExists(t, filepath.Join(dir, name, "tokenizer.json"))
		require.NoError(t, checkpoint.Verify(filepath.Join(dir, name)), "it is part of the checkpoint")
	}
	assert.Equal(t, []string{"checkpoint-2", "checkpoint-4"}, pusher.files)
	require.NoError(t, fit.SaveModel(final), "it makes the folder, as save_model does")
	assert.FileExists(t, filepath.Join(final, "tokenizer.json"))
	inTheWay := filepath.Join(final, "tokenizer.json", "model")
	assert.ErrorContains(t, fit.SaveModel(inTheWay), "trainer: SaveModel: mkdir")

	require.Len(t, pusher.started, 1, "once, before the run")
	assert.Equal(t, dir, pusher.started[0].OutputDir)
	assert.Equal(t, []checkpoint.Hyperparameter{{Name: "learning_rate", Value: 5e-5},
		{Name: "train_batch_size", Value: 2}, {Name: "eval_batch_size", Value: 8}, {Name: "seed", Value: int64(42)},
		{Name: "gradient_accumulation_steps", Value: 3}, {Name: "total_train_batch_size", Value: 6},
		{Name: "lr_scheduler_type", Value: "Linear"}, {Name: "training_steps", Value: 4}},
		pusher.started[0].Hyperparameters)
}

func TestPusherThatCannotStartEndsTheRunBeforeItsFirstUpdate(t *testing.T) {
	step := new(trainertest.Step)
	refusal := errors.New("no token")
	fit, err := trainer.New[int, []int](step, trainer.Options{OutputDir: t.TempDir(), MaxSteps: 4,
		Pusher: &startPusher{refuses: refusal}, Progress: io.Discard})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), trainertest.Samples(4), nil)
	require.ErrorIs(t, err, refusal)
	assert.ErrorContains(t, err, "Options.Pusher")
	assert.NotContains(t, step.Trace(), "train(")
}

func TestProcessingClassThatCannotBeSaved(t *testing.T) {
	full := errors.New("the vocabulary is gone")
	dir := t.TempDir()
	fit, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{OutputDir: dir, MaxSteps: 2,
		ProcessingClass: &words{full}, Progress: io.Discard})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), trainertest.Samples(4), nil)
	require.ErrorIs(t, err, full)
	assert.ErrorContains(t, err, "Options.ProcessingClass *trainer_test.words")
	assert.NoDirExists(t, filepath.Join(dir, "checkpoint-2"), "no checkpoint without its tokenizer")
	require.ErrorIs(t, fit.SaveModel(dir), full)
}
