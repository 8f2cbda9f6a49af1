package callback_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// The names and the format are those of transformers 5.17, whose Trainer restores these states of
// its own callbacks when it resumes.
func TestStatesOfCallbacksAreThoseOfTransformers(t *testing.T) {
	dir := t.TempDir()
	losses := []float64{1, 2, 3}
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": losses[n-1]}
	}}
	tr, err := trainer.New(step, trainer.Options{
		OutputDir: dir, Epochs: 3, Save: trainer.Every(2, trainer.Epoch),
		Callbacks: []any{&callback.EarlyStopping{Patience: 3, Threshold: 0.5}}, Progress: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(t.Context(), trainertest.Samples(8), trainertest.Samples(1)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "checkpoint-2", "trainer_state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		States map[string]any `json:"stateful_callbacks"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"EarlyStoppingCallback": map[string]any{
			"args":       map[string]any{"early_stopping_patience": 3., "early_stopping_threshold": 0.5},
			"attributes": map[string]any{"early_stopping_patience_counter": 1.},
		},
		"TrainerControl": map[string]any{
			"args": map[string]any{
				"should_epoch_stop": false, "should_evaluate": false, "should_log": false, "should_save": true,
				"should_training_stop": false,
			},
			"attributes": map[string]any{},
		},
	}
	if diff := cmp.Diff(want, got.States); diff != "" {
		t.Errorf("stateful_callbacks (-transformers +ours):\n%s", diff)
	}
}
