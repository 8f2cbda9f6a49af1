package hezar

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Resumes from a checkpoint of PyTorch (testdata/resume.py), with its optimizer and schedule, and
// makes the next update.
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
				p.Tensor.Sum(torch.DefaultDType).Backward() // all gradients are 1
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

// Resumes in a new folder from a checkpoint of another run.
func TestAnotherRunsLogsStayAsTheyAre(t *testing.T) {
	contents := func(dir string) map[string]string {
		files := map[string]string{}
		require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			files[path] = string(text)
			return err
		}))
		return files
	}
	config := tinyConfig(t.TempDir())
	first := newTrainer(t, config, tinyOptions{})
	require.NoError(t, first.Train(t.Context()))
	other := contents(config.OutputDir)

	config.ResumeFromCheckpoint = filepath.Join(config.OutputDir, "checkpoints", "06")
	config.OutputDir = t.TempDir()
	second := newTrainer(t, config, tinyOptions{})
	require.NoError(t, second.Train(t.Context()))
	assert.Equal(t, other, contents(first.Config.OutputDir), "the files of the other run")
	assert.Equal(t, filepath.Join(config.OutputDir, "logs", "run"), second.State.LogsDir)
	assert.Equal(t, first.csv, second.csv, "the rows before the checkpoint too")
	assert.Len(t, contents(second.State.LogsDir), 2, "training_logs.csv and the events of TensorBoard")

	// The run's own checkpoint, given by another spelling of its path, continues the run's own
	// logs.
	config.ResumeFromCheckpoint = filepath.Join(config.OutputDir, "checkpoints", "12") + string(filepath.Separator)
	third, err := New[point, points](config, newTiny(2), cloud(11), tinyOptions{EvalDataset: cloud(5),
		Output: io.Discard, RunName: "another"})
	require.NoError(t, err)
	require.NoError(t, third.Close())
	assert.Equal(t, second.State.LogsDir, third.State.LogsDir)
}

// A checkpoint from another kind of device has no state for this device's generator.
func TestGeneratorsThatACheckpointLacksAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	var said bytes.Buffer
	config := tinyConfig(t.TempDir())
	tr := newTrainer(t, config, tinyOptions{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	s := &session[point, points]{t: tr}
	whole, err := s.MarshalState()
	require.NoError(t, err)
	require.NoError(t, s.UnmarshalState(whole))
	require.NotContains(t, said.String(), "generator")
	var state sessionState
	require.NoError(t, json.Unmarshal(whole, &state))
	state.Generators = nil
	without, err := json.Marshal(state)
	require.NoError(t, err)
	require.NoError(t, s.UnmarshalState(without))
	assert.Contains(t, said.String(), "no state of the generator")
	assert.Contains(t, said.String(), "device=cpu")
}
