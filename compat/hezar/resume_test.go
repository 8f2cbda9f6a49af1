package hezar

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// TestPythonsCheckpointGoesOnHere takes up a checkpoint of PyTorch (testdata/resume.py) with its
// optimizer and its schedule, and makes the next update.
func TestPythonsCheckpointGoesOnHere(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.Optimizer, config.WeightDecay, config.LearningRate = "adamw", 0.1, 0.05
	config.LRScheduler, config.LRSchedulerKwargs, config.LRSchedulingSteps = "exponential",
		omegaconf.Map{{Key: "gamma", Value: 0.5}}, 1
	config.ResumeFromCheckpoint = filepath.Join("testdata", "2")
	state := TrainerState{Epoch: 1, TotalEpochs: 2, GlobalStep: 6, EpochStep: 6,
		MetricForBestCheckpoint: "evaluation.loss", LogsDir: filepath.Join(config.OutputDir, "logs", "run")}
	require.NoError(t, state.Save(filepath.Join(config.OutputDir, "checkpoints", stateFile)))
	config.MaxSteps, config.DoEvaluate = Count(3), new(false)
	tr := newTrainer(t, config, tinyOptions{Overrides: Overrides[point, points]{
		TrainingStep: func(tr *Trainer[point, points], _ points) (torch.Tensor, error) {
			for _, p := range nn.Params(tr.Model().Model()) {
				p.Tensor.Sum(torch.DefaultDType).Backward() // gradients of 1
			}
			return torch.From([]float32{0}), nil
		}}})
	require.Equal(t, [3]any{2, 2, 0.0125}, [3]any{tr.State.GlobalStep, tr.State.EpochStep, tr.LearningRate()},
		"the batch behind which it continues, that of the epoch, and the rate")
	require.NoError(t, tr.Train(t.Context()))
	require.Equal(t, 3, tr.State.GlobalStep)
	raw, err := os.ReadFile("testdata/expected.json")
	require.NoError(t, err)
	var want struct {
		Weights []float64
		Rate    float64
	}
	require.NoError(t, json.Unmarshal(raw, &want))
	assert.Equal(t, want.Rate, tr.LearningRate())
	for i, got := range weightsOf(tr) {
		assert.InDelta(t, want.Weights[i], got, 1e-7, "weight %d, that of Python first", i)
	}
}
