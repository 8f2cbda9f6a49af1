package trainer_test

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// worse returns a step whose weights are not finite from the given update on.
func worse(from int) *trainertest.Step {
	step := &trainertest.Step{}
	step.Inject = func(op string, n int) error {
		if op == "update" && n >= from {
			step.BadWeights = []string{"w"}
		}
		return nil
	}
	return step
}

// saved returns the checkpoints in a folder.
func saved(t *testing.T, dir string) (list []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	require.NoError(t, err)
	for _, p := range paths {
		list = append(list, filepath.Base(p))
	}
	return list
}

// The copy of an asynchronous save is checked by the other goroutine, with the same outcomes.
func TestNonFiniteWeightsOfAnAsyncSave(t *testing.T) {
	dir := t.TempDir()
	_, err := fitNonFinite(worse(5), dir, 0, trainer.Options{KeepCheckpoints: 1, AsyncSave: true})
	var bad *trainer.NonFiniteError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, []string{"w"}, bad.Weights)
	assert.Equal(t, 6, bad.GlobalStep, "the update of the checkpoint, whatever came after it")
	assert.Equal(t, filepath.Join(dir, "checkpoint-3"), bad.Checkpoint)
	assert.Equal(t, run.BadNumbers, run.CodeOf(err))
	assert.Equal(t, []string{"checkpoint-3"}, saved(t, dir))

	dir = t.TempDir()
	_, err = fitNonFinite(worse(5), dir, 0, trainer.Options{KeepCheckpoints: 1, AsyncSave: true,
		NonFinite: trainer.IgnoreNonFinite})
	require.NoError(t, err)
	assert.Subset(t, saved(t, dir), []string{"checkpoint-3", "checkpoint-6", "checkpoint-9"})
	again := &trainertest.Step{}
	_, err = fitNonFinite(again, dir, 0, trainer.Options{ResumeFrom: trainer.Latest})
	require.NoError(t, err)
	assert.Contains(t, again.Trace(), "load(checkpoint-3)", "Latest takes the newest that is finite")
}

// The losses of the updates between a save and its check come from the bad weights.
func TestARollBackFromAnAsyncSaveForgetsTheLossesSince(t *testing.T) {
	step := asyncStep(t, func(save int) int { return []int{0, 2, 5, 0, 0}[save] })
	inject, lost := step.Inject, false
	step.Inject = func(op string, n int) error {
		if op == "update" && n == 4 {
			step.BadWeights, lost = []string{"w"}, true
		}
		lost = lost && op != "load"
		return inject(op, n)
	}
	step.Loss = func(int, []int) float64 {
		if lost {
			return math.NaN()
		}
		return 1
	}
	tr, err := trainer.New(step, trainer.Options{OutputDir: t.TempDir(), AsyncSave: true, Epochs: 1, BatchSize: 1,
		Log: trainer.Every(7, trainer.Update), Save: trainer.Every(2, trainer.Update), Progress: io.Discard,
		NonFinite: trainer.RollBackNonFinite})
	require.NoError(t, err)
	r, err := tr.Fit(t.Context(), trainertest.Samples(8), nil)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(step.Trace(), "load("), step.Trace())
	assert.InDelta(t, 1, r.History[0]["loss"], 0)
}

func TestARunRollsBackFromAnAsyncSave(t *testing.T) {
	step := &trainertest.Step{}
	step.Inject = func(op string, n int) error {
		if op == "update" && n == 5 {
			step.BadWeights = []string{"w"}
		}
		return nil
	}
	r, err := fitNonFinite(step, t.TempDir(), 0, trainer.Options{NonFinite: trainer.RollBackNonFinite, AsyncSave: true})
	require.NoError(t, err)
	assert.Contains(t, step.Trace(), "load(checkpoint-3)")
	assert.Equal(t, 10, r.GlobalStep)
}

// The folder has a finite checkpoint and newer ones that are not finite. Neither a resumed run nor
// its saves delete the finite one for them.
func TestAResumeDeletesNoFiniteCheckpointForOthers(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		dir := t.TempDir()
		_, err := fitNonFinite(worse(5), dir, 0, trainer.Options{NonFinite: trainer.IgnoreNonFinite})
		require.NoError(t, err)
		o := trainer.Options{KeepCheckpoints: 1, ResumeFrom: trainer.Latest}
		if ignore {
			o.NonFinite = trainer.IgnoreNonFinite
		}
		step := &trainertest.Step{}
		step.Inject = func(op string, n int) error {
			switch {
			case op == "train" && n == 1:
				assert.Contains(t, saved(t, dir), "checkpoint-3", "after the start")
			case op == "train" && n == 5:
				assert.Contains(t, saved(t, dir), "checkpoint-6", "what the run has written last")
			}
			return nil
		}
		_, err = fitNonFinite(step, dir, 0, o)
		require.NoError(t, err)
		if ignore { // the run was at its end
			assert.Contains(t, saved(t, dir), "checkpoint-3")
		}
	}
}

// The disk is full and the weights are not finite: no finite checkpoint is deleted to make room for
// them.
func TestNoRoomIsMadeForWeightsThatAreNotFinite(t *testing.T) {
	for _, async := range []bool{false, true} {
		step := worse(8)
		bad, full := step.Inject, false
		fault := func() error {
			if full {
				return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
			}
			return nil
		}
		step.Inject = func(op string, n int) error {
			if op == "save" && n == 3 {
				if full = true; !async {
					return fault()
				}
			}
			return bad(op, n)
		}
		step.Write = fault
		dir := t.TempDir()
		_, err := fitNonFinite(step, dir, 0, trainer.Options{KeepCheckpoints: 2, NonFinite: trainer.IgnoreNonFinite,
			AsyncSave: async})
		if err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
		assert.Subset(t, saved(t, dir), []string{"checkpoint-3", "checkpoint-6"}, "async: %v", async)
	}
}

func TestWeightsThatAreNotFiniteAreNotTheBest(t *testing.T) {
	step := worse(5)
	step.EvalMetrics = func(evaluation int, _ []int) trainer.Metrics {
		return trainer.Metrics{"accuracy": float64(evaluation)}
	}
	fit, err := trainer.New[int, []int](step, trainer.Options{OutputDir: t.TempDir(), Epochs: 1, BatchSize: 1,
		Progress: io.Discard, NonFinite: trainer.IgnoreNonFinite, LoadBestAtEnd: true, MetricForBest: "accuracy",
		Direction: trainer.GreaterIsBetter, Save: trainer.Every(3, trainer.Update),
		Eval: trainer.Every(3, trainer.Update)})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), trainertest.Samples(10), trainertest.Samples(1))
	require.NoError(t, err)
	assert.Contains(t, step.Trace(), "weights(checkpoint-3)")
}
