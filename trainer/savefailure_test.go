package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// fitOnFullDisk trains for six updates; the disk is full in the given saves, which are counted from
// 1.
func fitOnFullDisk(t *testing.T, o trainer.Options, fault error, full func(save int) bool) (*trainertest.Step,
	*trainer.Result, error) {
	step := &trainertest.Step{}
	step.Inject = func(op string, n int) error {
		if op == "save" && full(n) {
			return &os.PathError{Op: "write", Path: "model.safetensors", Err: fault}
		}
		return nil
	}
	o.Epochs, o.BatchSize, o.Save = 1, 1, trainer.Every(2, trainer.Update)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	tr, err := trainer.New[int, []int](step, o)
	require.NoError(t, err)
	r, err := tr.Fit(context.Background(), trainertest.Samples(6), nil)
	return step, r, err
}

func TestASaveThatFailsIsTriedAgainAfterTheNextUpdate(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EACCES} {
		dir := t.TempDir()
		var shown bytes.Buffer
		_, r, err := fitOnFullDisk(t, trainer.Options{OutputDir: dir, Progress: &shown}, fault,
			func(save int) bool { return save <= 2 })
		require.NoError(t, err, fault)
		assert.NoDirExists(t, filepath.Join(dir, "checkpoint-2"))
		assert.NoDirExists(t, filepath.Join(dir, "checkpoint-3"))
		for _, n := range []string{"checkpoint-4", "checkpoint-6"} {
			assert.NoError(t, checkpoint.Verify(filepath.Join(dir, n)), fault)
		}
		require.Len(t, r.Warnings, 2)
		assert.Contains(t, r.Warnings[0], "the run continues, and tries again after the next update")
		assert.Contains(t, r.Warnings[1], "was written after update 4")
		assert.Contains(t, shown.String(), "tries again")
	}
}

func TestARunWhoseLastCheckpointFailsReturnsItsResultToo(t *testing.T) {
	dir := t.TempDir()
	_, r, err := fitOnFullDisk(t, trainer.Options{OutputDir: dir}, syscall.ENOSPC, func(save int) bool {
		return save > 1
	})
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, run.Storage, run.CodeOf(err))
	require.NotNil(t, r)
	assert.Equal(t, 6, r.GlobalStep)
	assert.Equal(t, filepath.Join(dir, "checkpoint-2"), r.Checkpoint)
	assert.NotEmpty(t, r.Metrics)
}

func TestARunStopsAtASaveThatFailsWhereItIsToldTo(t *testing.T) {
	_, r, err := fitOnFullDisk(t, trainer.Options{OutputDir: t.TempDir(), SaveFailure: trainer.StopAtSaveFailure},
		syscall.ENOSPC, func(int) bool { return true })
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 2, r.GlobalStep)
}

func TestAnErrorOfTheStepInASaveEndsTheRun(t *testing.T) {
	step := &trainertest.Step{Inject: func(op string, _ int) error {
		if op == "save" {
			return errors.New("no such tensor")
		}
		return nil
	}}
	tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: t.TempDir(), Epochs: 1, BatchSize: 1,
		Save: trainer.Every(2, trainer.Update), Progress: io.Discard})
	require.NoError(t, err)
	_, err = tr.Fit(context.Background(), trainertest.Samples(6), nil)
	require.ErrorContains(t, err, "no such tensor")
}

// failsAfterSave is a hook whose own file cannot be written.
type failsAfterSave struct{}

func (failsAfterSave) AfterSave(*trainer.Run, string) error {
	return &os.PathError{Op: "open", Path: "/srv/notes.txt", Err: syscall.EACCES}
}

func TestAHookThatFailsAfterASaveIsNoFailureOfTheSave(t *testing.T) {
	_, r, err := fitOnFullDisk(t, trainer.Options{OutputDir: t.TempDir(), Callbacks: []any{failsAfterSave{}}}, nil,
		func(int) bool { return false })
	var hook *trainer.HookError
	require.ErrorAs(t, err, &hook)
	assert.Equal(t, "AfterSave", hook.Event)
	assert.Equal(t, 2, r.GlobalStep)
}

func TestRoomIsMadeByTheOldestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	step := &trainertest.Step{}
	full := true
	step.Inject = func(op string, n int) error {
		if op == "save" && n == 3 && full {
			full = false
			return &checkpoint.SpaceError{Path: "checkpoint-6", Err: syscall.ENOSPC}
		}
		return nil
	}
	tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, Epochs: 1, BatchSize: 1,
		Save: trainer.Every(2, trainer.Update), KeepCheckpoints: 2, Progress: io.Discard})
	require.NoError(t, err)
	r, err := tr.Fit(context.Background(), trainertest.Samples(6), nil)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "checkpoint-6"), r.Checkpoint)
	assert.NoDirExists(t, filepath.Join(dir, "checkpoint-2"))
	assert.DirExists(t, filepath.Join(dir, "checkpoint-4"))
	require.Len(t, r.Warnings, 1)
	assert.Contains(t, r.Warnings[0], "older checkpoints were deleted before the new one was written")
}

// writesInside puts a file into a checkpoint that is being written.
type writesInside struct{ name string }

func (w writesInside) BeforeSeal(_ *trainer.Run, folder string) error {
	return os.WriteFile(filepath.Join(folder, w.name), []byte("{}"), 0o666)
}

func TestWhatAHookWritesBeforeTheSealIsPartOfTheCheckpoint(t *testing.T) {
	dir := t.TempDir()
	_, _, err := fitOnFullDisk(t, trainer.Options{OutputDir: dir, Callbacks: []any{writesInside{"tokenizer.json"}}},
		nil,
		func(int) bool { return false })
	require.NoError(t, err)
	path := filepath.Join(dir, "checkpoint-4")
	require.NoError(t, checkpoint.Verify(path))
	require.NoError(t, os.Remove(filepath.Join(path, "tokenizer.json")))
	var damaged *checkpoint.DamagedError
	require.ErrorAs(t, checkpoint.Verify(path), &damaged)
	assert.Equal(t, "tokenizer.json", damaged.File)
}

// addsLater writes a file next to those of a finished checkpoint, as programs for transformers do
// in on_save.
type addsLater struct{}

func (addsLater) AfterSave(_ *trainer.Run, path string) error {
	return os.WriteFile(filepath.Join(path, "tokenizer.json"), []byte("{}"), 0o666)
}

func TestAFileThatAHookAddsLaterLosesNothing(t *testing.T) {
	dir := t.TempDir()
	_, r, err := fitOnFullDisk(t, trainer.Options{OutputDir: dir, KeepCheckpoints: 1, Callbacks: []any{addsLater{}}},
		nil,
		func(int) bool { return false })
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(dir, "checkpoint-4"), "old checkpoints go")
	assert.NoError(t, checkpoint.Verify(r.Checkpoint))
}

func TestADamagedBestCheckpointIsReplacedByTheNextBest(t *testing.T) {
	dir := t.TempDir()
	values := []float64{0.9, 0.3, 0.1, 0.5, 0.7, 0.8}
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": values[n-1]}
	}}
	damage := damages{func() { _ = os.Remove(filepath.Join(dir, "checkpoint-3", "step.json")) }}
	tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, Epochs: 1, BatchSize: 1,
		Save: trainer.Every(1, trainer.Update), Eval: trainer.Every(1, trainer.Update), LoadBestAtEnd: true,
		Progress: io.Discard, Callbacks: []any{damage}})
	require.NoError(t, err)
	r, err := tr.Fit(context.Background(), trainertest.Samples(6), trainertest.Samples(2))
	require.NoError(t, err)
	require.Len(t, r.Warnings, 2)
	assert.Contains(t, r.Warnings[0], "checkpoint-3")
	assert.Contains(t, r.Warnings[1], "the next best checkpoint, "+filepath.Join(dir, "checkpoint-2"))
	assert.Contains(t, step.Trace(), "weights(checkpoint-2)")
}

// damages calls do after the last update.
type damages struct{ do func() }

func (d damages) EpochDone(*trainer.Run) error {
	d.do()
	return nil
}

func TestALogFileThatFailsDoesNotEndTheRun(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "metrics.csv")
	step := &trainertest.Step{}
	step.Inject = func(op string, n int) error {
		switch {
		case op == "update" && n == 2: // a folder replaces the file
			require.NoError(t, os.Remove(table))
			require.NoError(t, os.Mkdir(table, 0o777))
		case op == "update" && n == 5:
			require.NoError(t, os.Remove(table))
		}
		return nil
	}
	tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, Epochs: 1, BatchSize: 1,
		Log: trainer.Every(1, trainer.Update), Progress: io.Discard})
	require.NoError(t, err)
	r, err := tr.Fit(context.Background(), trainertest.Samples(6), nil)
	require.NoError(t, err)
	require.Len(t, r.Warnings, 1)
	assert.Contains(t, r.Warnings[0], "cannot write "+table)
	text, err := os.ReadFile(table)
	require.NoError(t, err)
	assert.Equal(t, 1+len(r.History), bytes.Count(text, []byte("\n")), "all rows are there in the end")
}

// If the best model could not be written, the run ends with the best of those that were. These are
// kept until then, even when room is made for a new checkpoint.
func TestTheNextBestModelIsLoadedWhereTheBestWasNotWritten(t *testing.T) {
	for _, async := range []bool{false, true} {
		values := []float64{0.5, 0.1, 0.7}
		step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
			return trainer.Metrics{"loss": values[n-1]}
		}}
		step.Inject = func(op string, n int) error {
			if op == "save" && n == 2 {
				return &os.PathError{Op: "write", Path: "model.safetensors", Err: syscall.ENOSPC}
			}
			return nil
		}
		dir := t.TempDir()
		tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, Epochs: 1, BatchSize: 1, AsyncSave: async,
			KeepCheckpoints: 1, LoadBestAtEnd: true, Eval: trainer.Every(2, trainer.Update), Progress: io.Discard})
		require.NoError(t, err)
		r, err := tr.Fit(t.Context(), trainertest.Samples(6), trainertest.Samples(1))
		require.NoError(t, err)
		require.Contains(t, step.Trace(), "weights(checkpoint-2)", step.Trace())
		assert.Empty(t, r.Best.Checkpoint)
		assert.InDelta(t, 0.1, r.Best.Value, 0)
		assert.Contains(t, r.Warnings[len(r.Warnings)-1], "next best checkpoint, "+filepath.Join(dir, "checkpoint-2"))
	}
}
