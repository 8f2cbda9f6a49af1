package trainer_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func TestAutoFindBatchSizeFindsWhatFits(t *testing.T) {
	// 8, 7, 6 do not fit; 5 does.
	step := &trainertest.Step{}
	step.Inject = func(op string, n int) error {
		if op == "train" && strings.Count(step.Calls[len(step.Calls)-1], ",") >= 5 {
			return trainertest.ErrOutOfMemory
		}
		return nil
	}
	o := trainer.Options{OutputDir: memoryDir(t), Epochs: 1, AutoFindBatchSize: true, Save: trainer.Every(1,
		trainer.Update)}
	r, err := fitted(t, step, o, 12, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := new(trainertest.Step)
	if _, err := fitted(t, want, trainer.Options{Epochs: 1, BatchSize: 5}, 12, nil); err != nil {
		t.Fatal(err)
	}
	if step.Weights() != want.Weights() || step.Generator() != want.Generator() || r.GlobalStep != 3 ||
		len(r.Warnings) != 3 {
		t.Errorf("weights %x, want those of a run with batches of 5, %x; %+v", step.Weights(), want.Weights(), r)
	}
	if left, err := os.ReadDir(o.OutputDir); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), ".begin")
	}) {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestWarningsOfOptionsAreNotRepeatedByEveryTry(t *testing.T) {
	tries := 0
	step := &trainertest.Step{Inject: func(op string, _ int) error {
		if op == "train" && tries < 2 {
			tries++
			return trainertest.ErrOutOfMemory
		}
		return nil
	}}
	r, err := fitted(t, step, trainer.Options{Epochs: 1, BatchSize: 8, AutoFindBatchSize: true,
		Eval: trainer.Never, EvalDelay: 1}, 12, nil)
	require.NoError(t, err)
	require.Len(t, r.Warnings, 4)
	assert.Contains(t, r.Warnings[0], "EvalDelay is set, but Fit was given no validation set")
	assert.Contains(t, r.Warnings[1], "EvalDelay is set, but Eval is Never")
	assert.Contains(t, r.Warnings[2], "trying 7")
	assert.Contains(t, r.Warnings[3], "trying 6")
}

// emptyOrder visits nothing.
type emptyOrder struct{}

func (emptyOrder) Indices(int, int) []int { return nil }

func TestAnOrderWithoutIndicesIsRefusedUnderGlobalBatch(t *testing.T) {
	_, err := fitted(t, new(trainertest.Step), trainer.Options{Epochs: 1, BatchSize: 4, GlobalBatch: 4,
		Order: emptyOrder{}}, 10, nil)
	require.ErrorContains(t, err, "returned 0 indices for epoch 0")
}

// Memory may run out only after some updates. By default nothing is left of them; in Hugging Face's
// loop they remain.
func TestWhatIsLeftOfTheLargerBatches(t *testing.T) {
	for _, c := range []struct {
		rules semantics.Rules
		same  bool
	}{{semantics.Default, true}, {semantics.HuggingFace, false}} {
		failed := false
		step := &trainertest.Step{Inject: func(op string, n int) error {
			if op == "train" && n == 3 && !failed {
				failed = true
				return trainertest.ErrOutOfMemory
			}
			return nil
		}}
		o := trainer.Options{OutputDir: memoryDir(t), Epochs: 1, BatchSize: 4, AutoFindBatchSize: true,
			Save: trainer.Every(1, trainer.Update), Semantics: c.rules, Progress: io.Discard}
		tr, err := trainer.New(step, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), trainertest.Samples(12), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := new(trainertest.Step)
		alone, err := fitted(t, want, trainer.Options{Epochs: 1, BatchSize: 3, Semantics: c.rules}, 12, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := step.Weights() == want.Weights(); got != c.same || r.GlobalStep != 4 {
			t.Errorf("%s: weights are those of a run with batches of 3: %v, want %v; update %d", c.rules.Name, got,
				c.same, r.GlobalStep)
		}
		if diff := cmp.Diff(alone.History, r.History, ignoreTimes); c.same && diff != "" {
			t.Errorf("log (-run with 3 +found):\n%s", diff)
		}
		again, err := tr.Evaluate(t.Context(), trainertest.Samples(1))
		if err != nil || again == nil {
			t.Error(err)
		}
	}
}

func TestNoBatchFits(t *testing.T) {
	step := &trainertest.Step{Inject: func(op string, _ int) error {
		if op == "train" {
			return fmt.Errorf("allocating: %w", trainertest.ErrOutOfMemory)
		}
		return nil
	}}
	_, err := fitted(t, step, trainer.Options{AutoFindBatchSize: true, BatchSize: 3}, 8, nil)
	if err == nil || !strings.Contains(err.Error(), "not even a batch of one sample fits") {
		t.Error(err)
	}
	if _, err := trainer.New(still{step}, trainer.Options{AutoFindBatchSize: true}); err == nil ||
		!strings.Contains(err.Error(), "About().KnowsMemory is false") {
		t.Error(err)
	}
}

func TestWhatAKilledRunLeftIsDeletedInAFolderWhoseNameIsAPattern(t *testing.T) {
	o := trainer.Options{OutputDir: filepath.Join(memoryDir(t), "[1]"), Epochs: 1, AutoFindBatchSize: true,
		Save: trainer.Every(1, trainer.Update)}
	left := filepath.Join(o.OutputDir, ".begin-1")
	require.NoError(t, os.MkdirAll(left, 0o700))
	_, err := fitted(t, new(trainertest.Step), o, 4, nil)
	require.NoError(t, err)
	assert.NoDirExists(t, left)
}

func TestAResumedRunTakesTheSizeOfItsCheckpoint(t *testing.T) {
	o := trainer.Options{OutputDir: memoryDir(t), MaxSteps: 2, BatchSize: 3, AutoFindBatchSize: true,
		ResumeFrom: trainer.Latest}
	if _, err := fitted(t, new(trainertest.Step), o, 12, nil); err != nil {
		t.Fatal(err)
	}
	o.MaxSteps, o.BatchSize = 4, 8
	step := new(trainertest.Step)
	r, err := fitted(t, step, o, 12, nil)
	if err != nil || r.GlobalStep != 4 || strings.Count(firstTrain(step), ",") != 2 {
		t.Errorf("%+v, %v; first batch %s, want 3 samples", r, err, firstTrain(step))
	}
	o.MaxSteps = 6
	full := &trainertest.Step{Inject: func(op string, _ int) error {
		if op == "train" {
			return trainertest.ErrOutOfMemory
		}
		return nil
	}}
	if _, err := fitted(t, full, o, 12, nil); err == nil || !strings.Contains(err.Error(), "must keep that size") {
		t.Error(err)
	}
}
