package hezar

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// seen records what a run does.
type seen struct {
	*Trainer[point, points]
	dir                         string
	first                       []float32 // the first batch
	updates, evals, logs, board int
}

// names returns the entries of a folder of the run, without the numbers in the names of TensorBoard
// files.
func (s *seen) names(folder string) string {
	entries, _ := os.ReadDir(filepath.Join(s.dir, folder))
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// runOf trains 2 epochs of 6 batches with a configuration file of Hezar's, in which one or two
// options are changed.
func runOf(t *testing.T, options string) *seen {
	t.Helper()
	s := &seen{dir: t.TempDir()}
	m, err := omegaconf.Unmarshal([]byte("task: text_classification\nuse_cpu: true\nnum_epochs: 2\nbatch_size: 2\n" +
		"learning_rate: 0.05\nmetrics: [accuracy]\noutput_dir: " + s.dir + "\n"))
	require.NoError(t, err)
	others, err := omegaconf.Unmarshal([]byte(strings.ReplaceAll(options, "DIR", s.dir)))
	require.NoError(t, err)
	for _, o := range others {
		m.Set(o.Key.(string), o.Value)
	}
	text, err := omegaconf.Marshal(m)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "train_config.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	config, err := LoadTrainerConfig(path)
	require.NoError(t, err)

	type T = Trainer[point, points]
	s.Trainer, err = New(config, newTiny(2), cloud(11), tinyOptions{EvalDataset: cloud(5), Output: io.Discard,
		RunName: "run", Overrides: Overrides[point, points]{
			TrainingStep: func(t *T, b points) (torch.Tensor, error) {
				if s.first == nil {
					s.first = b.x
				}
				return t.TrainingStep(b)
			},
			EvaluationStep: func(t *T, b points) (EvalOutputs, error) { s.evals++; return t.EvaluationStep(b) },
			AfterUpdate:    func(*T) error { s.updates++; return nil },
			Log:            func(t *T, l Logs, step int) error { s.logs++; return t.Log(l, step) },
			WriteToTensorboard: func(t *T, l Logs, step int) error {
				s.board++
				return t.WriteToTensorboard(l, step)
			},
		}})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Train(t.Context()))
	return s
}

// Trains with each option of the Trainer Overview in a configuration file of Hezar.
func TestEveryOptionHasItsEffect(t *testing.T) {
	testenv.RequireTorch(t)
	usual := runOf(t, "")
	for _, c := range []struct {
		options string
		shown   func(s *seen) any
		want    any
	}{
		{"output_dir: DIR/here", func(s *seen) any { return s.names("here") }, "checkpoints logs"},
		{"device: cpu\nuse_cpu: false", func(s *seen) any { return s.Device().String() }, "cpu"},
		{"num_epochs: 3", func(s *seen) any { return s.State.GlobalStep }, 18},
		{"max_steps: 4", func(s *seen) any { return s.State.GlobalStep }, 4},
		{"max_steps: 0.5", func(s *seen) any { return s.State.GlobalStep }, 6},
		{"num_dataloader_workers: 2", func(s *seen) any { return weightsOf(s.Trainer) }, weightsOf(usual.Trainer)},
		{"dataloader_shuffle: false", func(s *seen) any { return s.first }, []float32{-2, -1, -1, 0}},
		{"seed: 42", func(s *seen) any { return weightsOf(s.Trainer) }, weightsOf(usual.Trainer)},
		{"seed: 7", func(s *seen) any { return fmt.Sprint(s.first) == fmt.Sprint(usual.first) }, false},
		{"optimizer: sdg", func(s *seen) any { return len(s.Optimizer().State()) }, 0}, // Adam keeps moments
		{"learning_rate: 0.01", func(s *seen) any { return s.LearningRate() }, 0.01},
		{"weight_decay: 0.1", func(s *seen) any { return *s.Optimizer().Groups()[0].WeightDecay }, 0.1},
		{"lr_scheduler: exponential\nlr_scheduler_kwargs: {gamma: 0.5}", func(s *seen) any { return s.LearningRate() },
			0.05 / 4},
		{"lr_scheduler: exponential\nlr_scheduler_kwargs: {gamma: 0.5}\nlr_scheduling_steps: 3",
			func(s *seen) any { return s.LearningRate() }, 0.05 / 16},
		{"batch_size: 3", func(s *seen) any { return s.NumBatches }, 4},
		{"eval_batch_size: 5", func(s *seen) any { return s.evals }, 2},
		{"gradient_accumulation_steps: 3", func(s *seen) any { return s.updates }, 4},
		{"do_evaluate: false\nmetric_for_best_model: train.loss", func(s *seen) any { return s.evals }, 0},
		{"metrics: [accuracy, f1]", func(s *seen) any {
			text, err := os.ReadFile(filepath.Join(s.dir, "logs/run", csvFile))
			first, _, _ := strings.Cut(string(text), "\n")
			return fmt.Sprint(first, err)
		}, "step,train.loss,evaluation.accuracy,evaluation.f1,evaluation.loss<nil>"},
		{"metric_for_best_model: accuracy", func(s *seen) any { return s.State.MetricForBestCheckpoint },
			"evaluation.accuracy"},
		{"save_steps: 4", func(s *seen) any { return s.names("checkpoints") }, "04 06 08 12 trainer_state.yaml"},
		{"save_steps: 0.5", func(s *seen) any { return s.names("checkpoints") }, "06 12 trainer_state.yaml"},
		{"log_steps: 2", func(s *seen) any { return s.board - usual.board }, 6},
		{"checkpoints_dir: kept", func(s *seen) any { return s.names("kept") }, "06 12 trainer_state.yaml"},
		{"logs_dir: written", func(s *seen) any { return s.names("written") }, "run"},
	} {
		t.Run(c.options, func(t *testing.T) { assert.Equal(t, c.want, c.shown(runOf(t, c.options))) })
	}
	assert.Equal(t, 12, usual.updates, "and without them")
	assert.Equal(t, 6, usual.evals)
	config := tinyConfig(t.TempDir())
	config.Task = "fishing"
	_, err := tryTrainer(t, config, cloud(5), Rules{})
	assert.ErrorContains(t, err, "fishing", "task decides on the metrics")
}
