package trainer_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// A resume with another deciding metric finds the best among the evaluations in the checkpoint.
func TestAResumeWithAnotherMetricJudgesAnew(t *testing.T) {
	losses, accuracies := []float64{0.1, 0.2, 0.3, 0.4}, []float64{0.7, 0.9, 0.8, 0.85}
	for _, c := range []struct {
		claim     string
		metric    string
		direction trainer.Direction
		warning   string
		step      int
		value     float64
	}{
		{"the same", "", trainer.ByName, "MaxSteps was 3 and is 4", 1, 0.1},
		{"another metric", "accuracy", trainer.ByName, "MetricForBest was loss and is accuracy", 2, 0.9},
		{"the other way round", "", trainer.GreaterIsBetter, "Direction was lower and is greater", 4, 0.4},
		{"a metric that was not there", "f1", trainer.ByName, "has no eval_f1, the metric that now decides the best",
			4, 0.5},
	} {
		dir := t.TempDir()
		fit := func(steps int, metric string, direction trainer.Direction) *trainer.Result {
			step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
				m := trainer.Metrics{"loss": losses[n-1], "accuracy": accuracies[n-1]}
				if n == 4 {
					m["f1"] = 0.5
				}
				return m
			}}
			r, err := fitted(t, step, trainer.Options{OutputDir: dir, MaxSteps: steps, BatchSize: 1,
				Eval: trainer.Every(1, trainer.Update), Save: trainer.Every(1, trainer.Update), MetricForBest: metric,
				Direction: direction, ResumeFrom: trainer.Latest}, 8, trainertest.Samples(2))
			require.NoError(t, err, c.claim)
			return r
		}
		fit(3, "", trainer.ByName)
		r := fit(4, c.metric, c.direction)
		require.NotEmpty(t, r.Warnings, c.claim)
		assert.Contains(t, r.Warnings[len(r.Warnings)-1], c.warning, c.claim)
		assert.Equal(t, c.step, r.Best.GlobalStep, c.claim)
		assert.Equal(t, c.value, r.Best.Value, c.claim)
		assert.Equal(t, c.value, r.Best.Metrics[r.Best.Metric], c.claim)
		assert.DirExists(t, r.Best.Checkpoint, c.claim)
	}
}

// The rest of an epoch belongs to its own permutation.
func TestAnotherOrderBeginsWithAnEpoch(t *testing.T) {
	for _, c := range []struct {
		claim string
		steps int
		then  data.Order
		order data.Order
		rules semantics.Rules
		force bool
		want  string
		fails bool
	}{
		{"the default by its name", 3, nil, data.Shuffled{Seed: 42}, semantics.Default, false, "", false},
		{"another one inside an epoch", 3, nil, data.Sequential{}, semantics.Default, false,
			"Order was Shuffled, Seed 42 and is Sequential", true},
		{"of another seed", 3, data.Shuffled{Seed: 1}, data.Shuffled{Seed: 2}, semantics.Default, false,
			"Order was Shuffled, Seed 1 and is Shuffled, Seed 2", true},
		{"of other lengths", 3, data.GroupedByLength{Lengths: make([]int, 20), BatchSize: 1},
			data.GroupedByLength{Lengths: []int{19: 7}, BatchSize: 1}, semantics.Default, false,
			"Order was GroupedByLength", true},
		{"by force", 3, nil, data.Sequential{}, semantics.Default, true, "Order was Shuffled", false},
		{"Hugging Face warns alone", 3, nil, data.Sequential{}, semantics.HuggingFace, false,
			"Order was Shuffled", false},
		{"after an epoch", 20, nil, data.Sequential{}, semantics.Default, false, "Order was Shuffled", false},
	} {
		dir := t.TempDir()
		fit := func(steps int, order data.Order, force bool) (*trainer.Result, error) {
			return fitted(t, new(trainertest.Step), trainer.Options{OutputDir: dir, MaxSteps: steps, BatchSize: 1,
				Order: order, Save: trainer.Every(1, trainer.Update), Semantics: c.rules, ResumeFrom: trainer.Latest,
				ForceResume: force, Schedule: lr.Constant{}}, 20, nil)
		}
		_, err := fit(c.steps, c.then, false)
		require.NoError(t, err, c.claim)
		r, err := fit(c.steps+1, c.order, c.force)
		if c.fails {
			require.ErrorIs(t, err, trainer.ErrOtherRun, c.claim)
			assert.ErrorContains(t, err, c.want, c.claim)
			continue
		}
		require.NoError(t, err, c.claim)
		require.NotEmpty(t, r.Warnings, c.claim) // a warning about MaxSteps
		last := r.Warnings[len(r.Warnings)-1]
		if c.want == "" {
			assert.NotContains(t, last, "Order was", c.claim)
		} else {
			assert.Contains(t, last, c.want, c.claim)
		}
	}
}

// The text that is compared is the same in every build of a program.
func TestASettingHasNoAddress(t *testing.T) {
	schedule := func(factor float64) lr.LambdaLR {
		return lr.LambdaLR{Lambda: func(int) float64 { return factor }}
	}
	dir := t.TempDir()
	var texts []string
	other := &lr.LambdaLR{Lambda: func(update int) float64 { return 1 / float64(update+1) }}
	for i, s := range []lr.Schedule{schedule(1), other} {
		name := nameOfSchedule{}
		r, err := fitted(t, new(trainertest.Step), trainer.Options{OutputDir: dir, MaxSteps: 2, BatchSize: 1,
			Schedule: s, ResumeFrom: trainer.Latest, Callbacks: []any{&name}}, 8, nil)
		require.NoError(t, err)
		assert.Empty(t, r.Warnings, i)
		texts = append(texts, name.text)
	}
	assert.Equal(t, []string{"LambdaLR", "LambdaLR"}, texts)
}

type nameOfSchedule struct{ text string }

func (n *nameOfSchedule) TrainBegin(r *trainer.Run) error {
	n.text = r.Info.Schedule
	return nil
}

// The schedule, which moves between two updates, must know whether the last update was made, even
// in the session before.
func TestAResumeKnowsWhetherTheLastUpdateWasMade(t *testing.T) {
	o := trainer.Options{Epochs: 2, Accumulate: 2, ScheduleSteps: 3,
		Semantics: semantics.Rules{Loop: semantics.HezarLoop}, Save: trainer.Every(1, trainer.Update), Eval: trainer.Never,
		LearningRate: 0.5}
	o.OutputDir = memoryDir(t)
	whole, want := fitWith(t, o, 8)
	for cut := 1; cut <= want.GlobalStep; cut++ {
		o := o
		o.OutputDir, o.ResumeFrom = memoryDir(t), trainer.Latest
		got, _ := fitInterrupted(t, o, 8, cut)
		assert.Equal(t, whole.Weights(), got.Weights(), "interrupted in step %d", cut)
	}
}

// peer is a step that reads the files of transformers, as far as trainertest's step has any.
type peer struct{ *trainertest.Step }

func (peer) SaveTransformers(string, trainer.SchedulePosition, trainer.SaveOptions) error { return nil }

func (p peer) LoadTransformers(dir string) (trainer.SchedulePosition, error) {
	return trainer.SchedulePosition{Moves: 3, Peak: 0.1, Next: 0.1}, p.Step.Load(dir, trainer.LoadOptions{})
}

// Load fails if the folder is not its own, as that of package engine does.
func (p peer) Load(dir string, o trainer.LoadOptions) error {
	if _, err := os.Stat(filepath.Join(dir, "gotrainer_state.json")); err != nil {
		return err
	}
	return p.Step.Load(dir, o)
}

// ofTransformers makes a folder with a checkpoint written by transformers.
func ofTransformers(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	_, err := fitted(t, new(trainertest.Step), trainer.Options{OutputDir: dir, MaxSteps: 3, BatchSize: 2,
		Order: data.Sequential{}}, 16, nil)
	require.NoError(t, err)
	from := filepath.Join(dir, "checkpoint-3")
	require.NoError(t, os.Remove(filepath.Join(from, "gotrainer_state.json")))
	require.NoError(t, os.Remove(filepath.Join(from, "MANIFEST.json")))
	require.NoError(t, os.WriteFile(filepath.Join(from, "optimizer.pt"), nil, 0o600))
	return dir
}

func TestARunRollsBackToACheckpointOfTransformers(t *testing.T) {
	step := peer{&trainertest.Step{Loss: func(_ int, batch []int) float64 {
		if batch[0] == 8 {
			return math.NaN()
		}
		return 1
	}}}
	r, err := fitted(t, step, trainer.Options{OutputDir: ofTransformers(t), MaxSteps: 7, BatchSize: 2,
		Order: data.Sequential{}, Log: trainer.Every(1, trainer.Update), NonFinite: trainer.RollBackNonFinite,
		ResumeFrom: trainer.Latest}, 16, nil)
	require.NoError(t, err)
	assert.Equal(t, 7, r.GlobalStep)
	assert.Regexp(t, `rolled back to \S+checkpoint-3,`, r.Warnings[len(r.Warnings)-1])
}

func TestTheBatchSizeOfACheckpointOfTransformersIsKept(t *testing.T) {
	dir := ofTransformers(t)
	for _, from := range []string{trainer.Latest, filepath.Join(dir, "checkpoint-3")} {
		step := peer{new(trainertest.Step)}
		_, err := fitted(t, step, trainer.Options{OutputDir: dir, MaxSteps: 4, BatchSize: 8, AutoFindBatchSize: true,
			Order: data.Sequential{}, Save: trainer.Never, ResumeFrom: from}, 16, nil)
		require.NoError(t, err)
		assert.Contains(t, step.Trace(), "train(6,7)")
	}
}
