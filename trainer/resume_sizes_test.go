package trainer_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// When the position is recomputed, the losses since the last log are kept, together with their
// number.
func TestTheFirstLossAfterAForcedResumeIsAMean(t *testing.T) {
	dir := t.TempDir()
	fit := func(batch, steps int) *trainer.Result {
		step := &trainertest.Step{Loss: func(int, []int) float64 { return 1 }}
		tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, BatchSize: batch, MaxSteps: steps,
			Log: trainer.Every(4, trainer.Update), Save: trainer.Every(1, trainer.Update), ResumeFrom: trainer.Latest,
			ForceResume: true, Progress: io.Discard})
		require.NoError(t, err)
		r, err := tr.Fit(t.Context(), trainertest.Samples(24), nil)
		require.NoError(t, err)
		return r
	}
	fit(1, 7)
	r := fit(2, 12)
	var steps []float64
	for _, row := range r.History {
		if loss, ok := row["loss"]; ok {
			assert.Equal(t, 1.0, loss, "after update %v", row["step"])
			steps = append(steps, row["step"])
		}
	}
	assert.Equal(t, []float64{4, 8, 12}, steps)
	assert.Equal(t, 1.0, r.TrainLoss)
}
