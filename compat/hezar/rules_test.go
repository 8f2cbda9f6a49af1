package hezar

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/torch"
)

// tryTrainer makes a trainer and returns the error of New.
func tryTrainer(t *testing.T, c TrainerConfig, eval data.Dataset[point], r Rules) (*Trainer[point, points], error) {
	t.Helper()
	testenv.RequireTorch(t)
	tr, err := New[point, points](c, newTiny(2), cloud(11), tinyOptions{Output: io.Discard, RunName: "run",
		EvalDataset: eval, Rules: r})
	if err == nil {
		t.Cleanup(func() { tr.Close() })
	}
	return tr, err
}

func train(t *testing.T, c TrainerConfig, r Rules) *Trainer[point, points] {
	t.Helper()
	tr, err := tryTrainer(t, c, cloud(5), r)
	if err == nil {
		err = tr.Train(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func fileOf(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEmptyEvaluationIsZero(t *testing.T) {
	config := tinyConfig(t.TempDir())
	for _, r := range []Rules{{EmptyEvaluation: true}, Exact} {
		tr, err := tryTrainer(t, config, cloud(0), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Train(context.Background()); err != nil {
			t.Fatal(err)
		}
		if tr.State.BestMetricValue == nil || *tr.State.BestMetricValue != 0 || tr.State.BestCheckpoint != 6 {
			t.Errorf("the best is %v of step %d, want 0 of step 6", tr.State.BestMetricValue, tr.State.BestCheckpoint)
		}
		if state := fileOf(t, config.OutputDir, "checkpoints", stateFile); !strings.Contains(state,
			"best_metric_value: 0\n") {
			t.Errorf("the state is\n%s; want the integer 0, as Hezar has it", state)
		}
		table := fileOf(t, tr.State.LogsDir, csvFile)
		if !strings.HasPrefix(table, "step,train.loss,evaluation.accuracy,evaluation.loss\n") || strings.Count(table,
			",0,0\n") != 2 {
			t.Errorf("the table is\n%s; want two rows that end in 0,0", table)
		}
		if parsed, err := parseCSV(table); err != nil || parsed.text() != table {
			t.Errorf("the table reads as %+v, %v", parsed, err)
		}
		if got, err := tr.Evaluate(context.Background(), cloud(0)); err != nil || len(got) != 2 ||
			got[1].String() != "0" {
			t.Errorf("Evaluate = %v, %v", got, err)
		}
	}
	for claim, eval := range map[string]data.Dataset[point]{"none": nil, "an empty set": cloud(0)} {
		if _, err := tryTrainer(t, config, eval, Rules{}); err == nil || !strings.Contains(err.Error(), "EvalDataset") {
			t.Errorf("%s: New returns %v, want a refusal of EvalDataset", claim, err)
		}
	}
	tr, err := tryTrainer(t, config, nil, Exact)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Train(context.Background()); err == nil || tr.State.GlobalStep != 6 {
		t.Errorf("without a set the run fails with %v after %d batches, want a failure after the first epoch, 6", err,
			tr.State.GlobalStep)
	}
}

func TestOptimizerOfAResumedRunIsTheCheckpoints(t *testing.T) {
	first := tinyConfig(t.TempDir())
	first.WeightDecay = 0.1
	train(t, first, Exact)
	second := first
	second.NumEpochs, second.LearningRate, second.WeightDecay, second.ResumeFromCheckpoint = 3, 0.5, 0,
		filepath.Join(first.OutputDir, "checkpoints", "12")
	for _, c := range []struct {
		claim     string
		optimizer string
		rules     Rules
		rate      float64
		decay     float64
		decoupled bool
	}{
		{"by itself the configuration's", "adam", Rules{}, 0.5, 0, false},
		{"by itself of the kind that is asked for", "adamw", Rules{}, 0.5, 0, true},
		{"with Exact the checkpoint's", "adam", Exact, 0.05, 0.1, false},
		{"with Exact of the checkpoint's kind", "adamw", Exact, 0.05, 0.1, false},
	} {
		second.Optimizer = c.optimizer
		tr, err := tryTrainer(t, second, cloud(5), c.rules)
		if err != nil {
			t.Errorf("%s: %v", c.claim, err)
			continue
		}
		if tr.LearningRate() != c.rate || *tr.Optimizer().Groups()[0].WeightDecay != c.decay ||
			tr.Config.LearningRate != 0.5 {
			t.Errorf("%s: rate %g, decay %g, configuration %g; want %g, %g and 0.5", c.claim, tr.LearningRate(),
				*tr.Optimizer().Groups()[0].WeightDecay, tr.Config.LearningRate, c.rate, c.decay)
		}
		path := filepath.Join(t.TempDir(), "optimizer.pt")
		if err := saveOptimizer(path, tr.Optimizer(), 1, 1, false); err != nil {
			t.Fatal(err)
		}
		saved, err := torchsave.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kind := TrainerConfig{}
		if _, err := kind.adoptSettings(saved); err != nil || (kind.Optimizer == "adamw") != c.decoupled {
			t.Errorf("%s: the optimizer is %s, %v", c.claim, kind.Optimizer, err)
		}
	}
	second.Optimizer = "sdg"
	if _, err := tryTrainer(t, second, cloud(5), Rules{}); err == nil {
		t.Error("New accepts an optimizer that the states do not match")
	}
	tr, err := tryTrainer(t, second, cloud(5), Exact)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Train(context.Background()); err == nil || tr.State.GlobalStep != 12 || !strings.Contains(err.Error(),
		`"sdg"`) {
		t.Errorf("with Exact it fails with %v at batch %d, want a failure of the first update, 12", err,
			tr.State.GlobalStep)
	}
}

func TestScheduleOfAResumedRunIsPlannedFromTheCheckpointsRate(t *testing.T) {
	first := tinyConfig(t.TempDir())
	first.LRScheduler, first.LRSchedulerKwargs = "exponential", omegaconf.Map{{Key: "gamma", Value: 0.5}}
	train(t, first, Exact)
	first.NumEpochs, first.LearningRate, first.ResumeFromCheckpoint = 3, 0.5, filepath.Join(first.OutputDir,
		"checkpoints", "12")
	for rate, r := range map[float64]Rules{0.125: {}, 0.0125: Exact} {
		if tr, err := tryTrainer(t, first, cloud(5), r); err != nil || math.Abs(tr.LearningRate()-rate) > 1e-15 {
			t.Errorf("the rate is %v, %v; want %g", tr.LearningRate(), err, rate)
		}
	}
}

func TestMomentumThatAScheduleBringsIsResumed(t *testing.T) {
	config := func(epochs int) TrainerConfig {
		c := tinyConfig(t.TempDir())
		c.NumEpochs, c.Optimizer, c.LRScheduler, c.LRSchedulingSteps = epochs, "sdg", "cyclic", 1
		c.LRSchedulerKwargs = omegaconf.Map{{Key: "base_lr", Value: 0.01}, {Key: "max_lr", Value: 0.1},
			{Key: "step_size_up", Value: int64(3)}}
		return c
	}
	for _, r := range []Rules{{}, Exact} {
		whole, half := config(2), config(1)
		want := weightsOf(train(t, whole, r))
		train(t, half, r)
		half.NumEpochs, half.ResumeFromCheckpoint = 2, filepath.Join(half.OutputDir, "checkpoints", "6")
		if got := weightsOf(train(t, half, r)); !slices.Equal(got, want) {
			t.Errorf("the resumed run ends at %v, the whole one at %v", got, want)
		}
	}
}

func TestSaveFreqIsTakenUnderItsRuleOnly(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.SaveFreq = 2
	if _, err := tryTrainer(t, config, cloud(5), Rules{}); err == nil || !strings.Contains(err.Error(), "SaveSteps") {
		t.Errorf("New returns %v, want that SaveFreq has become SaveSteps", err)
	}
	train(t, config, Rules{SaveFreqIgnored: true})
	for _, name := range []string{"06", "12"} {
		if text := fileOf(t, config.OutputDir, "checkpoints", name, configFile); !strings.Contains(text,
			"save_freq: 2\n") {
			t.Errorf("checkpoint %s says\n%s\nwant save_freq: 2", name, text)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(config.OutputDir, "checkpoints")); err != nil || len(entries) != 3 {
		t.Errorf("there are %v, %v; want the two ends of epochs and the state, whatever SaveFreq says", entries, err)
	}
}

func TestScheduleEndsWhereItsCycleDoes(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.LRScheduler, config.LRSchedulingSteps = "one_cycle", 1
	config.LRSchedulerKwargs = omegaconf.Map{{Key: "max_lr", Value: 0.1}, {Key: "total_steps", Value: int64(8)}}
	train(t, config, Rules{})
	tr, err := tryTrainer(t, config, cloud(5), Rules{ScheduleEnds: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Train(context.Background()); err == nil || !strings.Contains(err.Error(), "8 moves") ||
		tr.State.GlobalStep != 9 {
		t.Errorf("the run ends with %v after %d batches, want a failure after 9, of 8 moves", err, tr.State.GlobalStep)
	}
	config.LRSchedulerKwargs = append(config.LRSchedulerKwargs, omegaconf.Item{Key: "pct_start", Value: 0.125})
	if tr, err := tryTrainer(t, config, cloud(5), Rules{}); err != nil || tr.LearningRate() != 0.1 {
		t.Errorf("a top before the first update: %v, want that the first rate is the highest", err)
	}
	if _, err := tryTrainer(t, config, cloud(5), Rules{ScheduleEnds: true}); err == nil ||
		!strings.Contains(err.Error(), "pct_start") {
		t.Errorf("a top before the first update: with ScheduleEnds New returns %v, want a refusal", err)
	}
}

func TestSaveThatFailsLeavesNoState(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.LRScheduler, config.LRLambda = "lambda", func(int) float64 { return 1 }
	tr, err := tryTrainer(t, config, cloud(5), Exact)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Train(context.Background()); err == nil {
		t.Error("a function was saved")
	}
	if exists(filepath.Join(config.OutputDir, "checkpoints", stateFile)) {
		t.Error("the state names a missing checkpoint")
	}
}

// fromText parses a configuration as a user of Hezar would have it.
func fromText(t *testing.T, text string) TrainerConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train_config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadTrainerConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestZerosOfAFileAreNotDefaults(t *testing.T) {
	text := "output_dir: " + t.TempDir() + "\ntask: text_classification\nuse_cpu: true\nbatch_size: 2\n"
	for _, key := range []string{"num_epochs", "gradient_accumulation_steps"} {
		var setting *SettingError
		if _, err := tryTrainer(t, fromText(t, text+key+": 0\n"), cloud(5), Exact); !errors.As(err, &setting) ||
			setting.Want != "at least 1" {
			t.Errorf("%s: 0: New returns %v, want a refusal", key, err)
		}
	}
	still := fromText(t, text+"learning_rate: 0.0\n")
	if got, _ := still.Map().Get("learning_rate"); got != 0.0 {
		t.Errorf("the rate 0 is written as %v", got)
	}
	before := weightsOf(newTrainer(t, still, tinyOptions{}))
	if got := weightsOf(train(t, still, Rules{})); !slices.Equal(got, before) {
		t.Errorf("the rate 0 has moved the weights from %v to %v", before, got)
	}
	steps := fromText(t, text+"max_steps: 0\nsave_steps: 0\nlog_steps: 0\n")
	written, err := omegaconf.Marshal(steps.Map())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"max_steps: 0\n", "save_steps: 0\n", "log_steps: 0\n"} {
		if !strings.Contains(string(written), line) {
			t.Errorf("%q is not written again:\n%s", line, written)
		}
	}
	if tr := train(t, steps, Exact); tr.TotalSteps != 6 || tr.Config.SaveSteps != Count(6) ||
		!tr.Config.LogSteps.isZero() {
		t.Errorf("%d batches, saved every %v, logged every %v; want the defaults: 6, 6, 0", tr.TotalSteps,
			tr.Config.SaveSteps, tr.Config.LogSteps)
	}
	none := fromText(t, text)
	written, err = omegaconf.Marshal(none.Map())
	if err != nil || strings.Contains(string(written), "_steps: 0\n") {
		t.Errorf("what was not written is written as 0: %v\n%s", err, written)
	}
}

// named is a model whose labels are entities that begin with B- and I-.
type named struct{ *tiny }

func (named) TagName(id int64) string { return []string{"O", "B-place", "I-place"}[id] }
func (named) IOB() bool               { return true }

// Evaluates an entity of two tokens, the second of which the model mispredicts: no entity is
// correct, or one of two tokens.
func TestTheTrainingSetSaysWhetherItsTagsAreIOB(t *testing.T) {
	testenv.RequireTorch(t)
	config := TrainerConfig{Task: "sequence_labeling", Metrics: []string{"seqeval"}}
	for _, c := range []struct {
		iob *bool
		f1  float64
	}{{nil, 0}, {new(true), 0}, {new(false), 0.5}} {
		set := &datasets.SequenceLabeling{}
		set.Config.IsIOBSchema = c.iob
		h, err := newHandler(config, named{}, set, Rules{})
		require.NoError(t, err)
		logits := torch.From([]float32{0, 1, 0, 1, 0, 0}).View(1, 2, 3)
		require.NoError(t, h.Add(logits, torch.From([]int64{1, 2}).View(1, 2)))
		result, err := h.Result()
		require.NoError(t, err)
		assert.Equal(t, c.f1, result["f1"], "IsIOBSchema is %v", c.iob)
	}
}
