package trainer_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// asyncStep returns a step whose writer waits, in save n, until update until(n) has been made.
func asyncStep(t *testing.T, until func(save int) (update int)) *trainertest.Step {
	var mu sync.Mutex
	made, more := 0, make(chan struct{})
	saves := 0
	return &trainertest.Step{
		Inject: func(op string, _ int) error {
			if op == "report" || op == "train" { // the previous update has been made
				mu.Lock()
				defer mu.Unlock()
				close(more)
				more = make(chan struct{})
			}
			if op == "update" {
				mu.Lock()
				defer mu.Unlock()
				made++
			}
			return nil
		},
		Write: func() error {
			saves++
			for {
				mu.Lock()
				done, next := made >= until(saves), more
				mu.Unlock()
				if done {
					return nil
				}
				select {
				case <-next:
				case <-time.After(time.Minute):
					return errors.New("the run does not continue while it is saved")
				case <-t.Context().Done():
					return t.Context().Err()
				}
			}
		},
	}
}

// asyncRun makes a run of six updates with a checkpoint after every second one.
func asyncRun(t *testing.T, step trainer.Step[int, []int], o trainer.Options, valid data.Dataset[int]) (
	*trainer.Result, error) {
	o.Epochs, o.BatchSize, o.Log = 1, 1, trainer.Every(1, trainer.Update)
	o.Progress = io.Discard
	if o.Save == (trainer.Trigger{}) {
		o.Save = trainer.Every(2, trainer.Update)
	}
	fit, err := trainer.New(step, o)
	require.NoError(t, err)
	return fit.Fit(t.Context(), trainertest.Samples(6), valid)
}

// contents returns the files of a folder by their names.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[filepath.Base(path)] = string(text)
		return err
	}))
	return files
}

// The writer is slow: when it writes, the weights, generator, counts and log have already changed.
func TestAnAsyncCheckpointIsThatOfItsUpdate(t *testing.T) {
	want, got := t.TempDir(), t.TempDir()
	_, err := asyncRun(t, &trainertest.Step{}, trainer.Options{OutputDir: want}, nil)
	require.NoError(t, err)
	step := asyncStep(t, func(save int) int { return min(2*save+1, 6) })
	r, err := asyncRun(t, step, trainer.Options{OutputDir: got, AsyncSave: true}, nil)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(got, "checkpoint-6"), r.Checkpoint)
	for _, name := range []string{"checkpoint-2", "checkpoint-4", "checkpoint-6"} {
		require.NoError(t, checkpoint.Verify(filepath.Join(got, name)))
		assert.Equal(t, contents(t, filepath.Join(want, name)), contents(t, filepath.Join(got, name)), name)
	}
}

func TestOneCheckpointIsUnderWayAtATime(t *testing.T) {
	var now, most atomic.Int32
	step := &trainertest.Step{Write: func() error {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		return nil
	}}
	dir := t.TempDir()
	r, err := asyncRun(t, step, trainer.Options{OutputDir: dir, AsyncSave: true, Save: trainer.Every(1,
		trainer.Update)}, nil)
	require.NoError(t, err)
	assert.EqualValues(t, 1, most.Load())
	assert.Positive(t, r.SaveWaited)
	for n := range 6 {
		assert.NoError(t, checkpoint.Verify(filepath.Join(dir, "checkpoint-"+string(rune('1'+n)))))
	}
}

// The copy that is being written is in memory that EmptyCache frees, so the loop waits for the
// writer first.
func TestTheCacheIsNotEmptiedWhileACheckpointIsWritten(t *testing.T) {
	for name, o := range map[string]trainer.Options{
		"EmptyCacheSteps": {EmptyCacheSteps: 1}, "DivideOnOutOfMemory": {DivideOnOutOfMemory: true},
	} {
		t.Run(name, func(t *testing.T) {
			var writing atomic.Bool
			emptied := 0
			step := &trainertest.Step{
				Inject: func(op string, n int) error {
					switch {
					case op == "emptycache":
						emptied++
						assert.False(t, writing.Load(), "the cache is emptied while the writer is running")
					case op == "train" && n == 2 && o.DivideOnOutOfMemory:
						for !writing.Load() {
							time.Sleep(time.Millisecond)
						}
						return trainertest.ErrOutOfMemory
					}
					return nil
				},
				Write: func() error {
					writing.Store(true)
					time.Sleep(20 * time.Millisecond)
					writing.Store(false)
					return nil
				},
			}
			o.OutputDir, o.AsyncSave, o.Save = t.TempDir(), true, trainer.Every(1, trainer.Update)
			o.Epochs, o.BatchSize, o.Progress = 1, 2, io.Discard
			fit, err := trainer.New(step, o)
			require.NoError(t, err)
			_, err = fit.Fit(t.Context(), trainertest.Samples(6), nil)
			require.NoError(t, err)
			assert.Greater(t, emptied, 1, "once is the end of the run")
		})
	}
}

// AfterSave is called when the checkpoint is on the disk: at a later update or, for the last one,
// before the run ends.
func TestAfterSaveOfAnAsyncSaveComesWhenItIsOnTheDisk(t *testing.T) {
	var events []string
	var at []int
	o := trainer.Options{OutputDir: t.TempDir(), AsyncSave: true, Callbacks: []any{
		savedHook(func(r *trainer.Run, path string) {
			assert.NoError(t, checkpoint.Verify(path))
			events, at = append(events, filepath.Base(path)), append(at, r.GlobalStep)
		}),
	}}
	_, err := asyncRun(t, asyncStep(t, func(save int) int { return min(2*save+1, 6) }), o, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"checkpoint-2", "checkpoint-4", "checkpoint-6"}, events)
	assert.Greater(t, at[0], 2)
	assert.Greater(t, at[1], 4)
	assert.Equal(t, 6, at[2])
}

// savedHook is called for each checkpoint.
type savedHook func(r *trainer.Run, path string)

func (f savedHook) AfterSave(r *trainer.Run, path string) error {
	f(r, path)
	return nil
}

// failing returns a step whose writer fails in the given saves.
func failing(fault error, at ...int) *trainertest.Step {
	saves := 0
	return &trainertest.Step{Write: func() error {
		saves++
		for _, n := range at {
			if n == saves {
				return &os.PathError{Op: "write", Path: "model.safetensors", Err: fault}
			}
		}
		return nil
	}}
}

func TestAnAsyncSaveThatFailsIsTriedAgain(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS} {
		dir := t.TempDir()
		r, err := asyncRun(t, failing(fault, 1, 2), trainer.Options{OutputDir: dir, AsyncSave: true}, nil)
		require.NoError(t, err, fault)
		require.Len(t, r.Warnings, 2, fault)
		assert.Contains(t, r.Warnings[0], "the run continues, and tries again after the next update")
		assert.Contains(t, r.Warnings[1], "the checkpoint that failed before was written")
		assert.NoDirExists(t, filepath.Join(dir, "checkpoint-2"))
		assert.NoError(t, checkpoint.Verify(filepath.Join(dir, "checkpoint-6")))
		assert.Equal(t, filepath.Join(dir, "checkpoint-6"), r.Checkpoint)
		left, err := filepath.Glob(filepath.Join(dir, ".checkpoint-*"))
		require.NoError(t, err)
		assert.Empty(t, left)
	}
}

func TestAnAsyncSaveThatFailsStopsTheRunWhereItIsToldTo(t *testing.T) {
	r, err := asyncRun(t, failing(syscall.EIO, 1), trainer.Options{OutputDir: t.TempDir(), AsyncSave: true,
		SaveFailure: trainer.StopAtSaveFailure}, nil)
	require.ErrorIs(t, err, syscall.EIO)
	var failed *trainer.StepError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, "save", failed.Op)
	assert.GreaterOrEqual(t, r.GlobalStep, 2)
}

// No update follows the last save, so it is tried once more, and then its error is returned with
// the Result. If the weights were changed between two updates, while they were being copied, the
// checkpoint is made later, even if the options stop at save failures.
func TestASaveOfAStateThatWasChangedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	r, err := asyncRun(t, failing(trainer.ErrChangedWhileSaved, 1), trainer.Options{OutputDir: dir, AsyncSave: true,
		SaveFailure: trainer.StopAtSaveFailure}, nil)
	require.NoError(t, err)
	require.NotEmpty(t, r.Warnings)
	assert.Contains(t, r.Warnings[0], trainer.ErrChangedWhileSaved.Error())
	assert.NoDirExists(t, filepath.Join(dir, "checkpoint-2"))
	assert.NoError(t, checkpoint.Verify(filepath.Join(dir, "checkpoint-6")))
}

func TestTheLastAsyncSaveIsTriedTwice(t *testing.T) {
	dir := t.TempDir()
	r, err := asyncRun(t, failing(syscall.EIO, 1), trainer.Options{OutputDir: dir, AsyncSave: true,
		Save: trainer.Every(6, trainer.Update)}, nil)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "checkpoint-6"), r.Checkpoint)
	again := &trainertest.Step{}
	r, err = asyncRun(t, again, trainer.Options{OutputDir: dir, ResumeFrom: trainer.Latest,
		Save: trainer.Every(6, trainer.Update)}, nil)
	require.NoError(t, err, "what the second attempt has written can be continued")
	assert.Equal(t, 6, r.GlobalStep)
	assert.Equal(t, "load(checkpoint-6)", again.Trace())

	step := failing(syscall.EIO, 1)
	step.Inject = func(op string, n int) error {
		if op == "save" && n == 2 {
			return &os.PathError{Op: "write", Path: "step.json", Err: syscall.EIO}
		}
		return nil
	}
	r, err = asyncRun(t, step, trainer.Options{OutputDir: t.TempDir(), AsyncSave: true,
		Save: trainer.Every(6, trainer.Update)}, nil)
	require.ErrorIs(t, err, syscall.EIO)
	require.NotNil(t, r)
	assert.Equal(t, 6, r.GlobalStep)
	assert.Empty(t, r.Checkpoint)
}

func TestAnAsyncSaveMakesRoom(t *testing.T) {
	dir := t.TempDir()
	step := failing(syscall.ENOSPC, 3)
	r, err := asyncRun(t, step, trainer.Options{OutputDir: dir, AsyncSave: true, KeepCheckpoints: 2}, nil)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "checkpoint-6"), r.Checkpoint)
	assert.NoDirExists(t, filepath.Join(dir, "checkpoint-2"))
	assert.Contains(t, r.Warnings[0], "older checkpoints were deleted before the new one was written")
}

func TestAPanicOfTheWriterIsOneOfTheRun(t *testing.T) {
	step := &trainertest.Step{Write: func() error { panic("the writer") }}
	assert.PanicsWithValue(t, "the writer", func() {
		_, _ = asyncRun(t, step, trainer.Options{OutputDir: t.TempDir(), AsyncSave: true}, nil)
	})
}

// A cancelled run waits for the save in progress before it saves.
func TestACancelledRunWaitsForTheSaveThatIsUnderWay(t *testing.T) {
	for _, at := range []int{2, 3} { // the update of the save, and the one after it
		ctx, cancel := context.WithCancel(t.Context())
		step := &trainertest.Step{Write: func() error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			return nil
		}}
		dir := t.TempDir()
		o := trainer.Options{OutputDir: dir, AsyncSave: true, Epochs: 1, BatchSize: 1, Progress: io.Discard,
			Save: trainer.Every(2, trainer.Update)}
		step.Inject = func(op string, n int) error {
			if op == "train" && n == at+1 {
				cancel()
			}
			return nil
		}
		fit, err := trainer.New[int, []int](step, o)
		require.NoError(t, err)
		_, err = fit.Fit(ctx, trainertest.Samples(6), nil)
		var interrupted *trainer.InterruptedError
		require.ErrorAs(t, err, &interrupted)
		require.NoError(t, checkpoint.Verify(interrupted.Checkpoint))
		require.NoError(t, checkpoint.Verify(filepath.Join(dir, "checkpoint-2")))
		cancel()
	}
}

func TestTheBestModelOfAnAsyncSaveIsLoadedAtTheEnd(t *testing.T) {
	values := []float64{0.9, 0.3, 0.1}
	step := asyncStep(t, func(save int) int { return min(2*save+1, 6) })
	step.EvalMetrics = func(n int, _ []int) trainer.Metrics { return trainer.Metrics{"loss": values[n-1]} }
	dir := t.TempDir()
	r, err := asyncRun(t, step, trainer.Options{OutputDir: dir, AsyncSave: true, LoadBestAtEnd: true,
		KeepCheckpoints: 1, Eval: trainer.Every(2, trainer.Update)}, trainertest.Samples(2))
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "checkpoint-6"), r.Best.Checkpoint)
	assert.Contains(t, step.Trace(), "weights(checkpoint-6)")
	assert.NoDirExists(t, filepath.Join(dir, "checkpoint-4"))
}

func TestARollBackWaitsForTheSaveThatIsUnderWay(t *testing.T) {
	step := asyncStep(t, func(save int) int { return min(2*save+1, 6) })
	inject, once := step.Inject, true
	step.Inject = func(op string, n int) error {
		if op == "update" && n == 3 && once {
			step.BadWeights, once = []string{"fc.weight"}, false
		}
		return inject(op, n)
	}
	r, err := asyncRun(t, step, trainer.Options{OutputDir: t.TempDir(), AsyncSave: true,
		NonFinite: trainer.RollBackNonFinite, Save: trainer.Every(2, trainer.Update)}, nil)
	require.NoError(t, err)
	assert.Contains(t, step.Trace(), "load(checkpoint-2)")
	assert.Equal(t, 6, r.GlobalStep)
}

// savesAtOnce is a step that does not use SaveOptions.Later.
type savesAtOnce struct {
	trainer.Step[int, []int]
}

func (s savesAtOnce) About() trainer.About {
	a := s.Step.About()
	a.SavesLater = false
	return a
}

func TestAsyncSaveIsRefusedWhereItCannotBe(t *testing.T) {
	for _, c := range []struct {
		step trainer.Step[int, []int]
		o    trainer.Options
		want string
	}{
		{savesAtOnce{&trainertest.Step{}}, trainer.Options{OutputDir: t.TempDir(), AsyncSave: true},
			"About().SavesLater"},
		{&trainertest.Step{}, trainer.Options{AsyncSave: true}, "AsyncSave is set and needs one"},
		{&trainertest.Step{}, trainer.Options{AsyncSave: true, Saver: nowhereSaver{}},
			"AsyncSave cannot be set with it"},
	} {
		_, err := trainer.New(c.step, c.o)
		assert.ErrorContains(t, err, c.want)
	}
}

type nowhereSaver struct{}

func (nowhereSaver) SaveCheckpoint(*trainer.Run, []byte) (string, error) { return "", nil }
