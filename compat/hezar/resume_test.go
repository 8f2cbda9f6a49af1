package hezar

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

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
	if err := state.Save(filepath.Join(config.OutputDir, "checkpoints", stateFile)); err != nil {
		t.Fatal(err)
	}
	tr := newTrainer(t, config, tinyOptions{})
	if tr.State.GlobalStep != 2 || tr.State.EpochStep != 2 || tr.LearningRate() != 0.0125 {
		t.Errorf("it goes on after batch %d, %d of the epoch, at rate %g; want 2, 2 and 0.0125", tr.State.GlobalStep,
			tr.State.EpochStep, tr.LearningRate())
	}
	params := nn.Params(tr.Model().Model())
	for _, p := range params {
		p.Tensor.Sum(torch.DefaultDType).Backward() // gradients of 1
	}
	tr.window.sync = true
	if err := tr.OptimizationStep(); err != nil {
		t.Fatal(err)
	}
	tr.State.GlobalStep++
	if err := tr.schedule(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Weights []float64
		Rate    float64
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if tr.LearningRate() != want.Rate {
		t.Errorf("the rate is %g, want %g", tr.LearningRate(), want.Rate)
	}
	for i, got := range weightsOf(tr) {
		if math.Abs(float64(got)-want.Weights[i]) > 1e-7 {
			t.Errorf("weight %d is %g, Python has %g", i, got, want.Weights[i])
		}
	}
}
