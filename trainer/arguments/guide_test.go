package arguments_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/arguments"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// guided is the outcome of a run with arguments.
type guided struct {
	step   *trainertest.Step
	result *trainer.Result
	engine engine.Options
}

// count returns the number of calls of a method.
func (g guided) count(call string) (n int) {
	for _, c := range g.step.Calls {
		if strings.HasPrefix(c, call+"(") {
			n++
		}
	}
	return n
}

// names returns the checkpoints in a folder.
func (g guided) names(folder string) (all []string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, e.Name())
		}
	}
	return all
}

// guide trains on 16 samples and evaluates on 8, with the arguments of a command line.
func guide(t *testing.T, line string) (g guided) {
	t.Helper()
	t.Chdir(t.TempDir())
	var args arguments.TrainingArguments
	require.NoError(t, arguments.Parse(strings.Fields(line+" --disable_tqdm true --report_to none --use_cpu"), &args))
	var o trainer.Options
	require.NoError(t, args.Apply(&o, &g.engine))
	loss := []float64{1, 3, 2, 4, 5}
	g.step = &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": loss[n-1]}
	}}
	tr, err := trainer.New(g.step, o)
	require.NoError(t, err)
	g.result, err = tr.Fit(t.Context(), trainertest.Samples(16), trainertest.Samples(8))
	require.NoError(t, err)
	return g
}

// TestArgumentsOfTheFirstListing trains with each argument of the Trainer guide's first listing.
func TestArgumentsOfTheFirstListing(t *testing.T) {
	testenv.RequireTorch(t)
	const epochs = "--eval_strategy epoch --save_strategy epoch"
	for _, c := range []struct {
		line  string
		shown func(g guided) any
		want  any
	}{
		{"--output_dir your-model " + epochs, func(g guided) any { return g.names("your-model") },
			[]string{"checkpoint-2", "checkpoint-4", "checkpoint-6"}},
		{"--save_strategy no", func(g guided) any { return g.names("trainer_output") }, []string(nil)},
		{"--learning_rate 2e-5", func(g guided) any {
			return strings.Contains(g.step.Trace(), " update(2e-05) ")
		}, true},
		{"--per_device_train_batch_size 4", func(g guided) any { return g.result.GlobalStep }, 12},
		{"--per_device_eval_batch_size 2 --eval_strategy epoch", func(g guided) any { return g.count("eval") }, 12},
		{"--num_train_epochs 2", func(g guided) any { return g.result.GlobalStep }, 4},
		{"--weight_decay 0.01", func(g guided) any { return *g.engine.Optimizer.(optim.AdamW).WeightDecay }, 0.01},
		{"--eval_strategy epoch", func(g guided) any { return len(g.step.Evaluations) }, 3},
		{"--eval_strategy steps --eval_steps 2", func(g guided) any { return len(g.step.Evaluations) }, 3},
		{"", func(g guided) any { return len(g.step.Evaluations) }, 0},
		{epochs + " --load_best_model_at_end", func(g guided) any {
			return []any{filepath.Base(g.result.Best.Checkpoint), g.count("weights")}
		}, []any{"checkpoint-2", 1}},
	} {
		t.Run(c.line, func(t *testing.T) { assert.Equal(t, c.want, c.shown(guide(t, c.line))) })
	}
	old := map[string]any{"evaluation_strategy": "epoch"} // as in the guide; transformers 5.17 refuses it
	assert.ErrorContains(t, arguments.ParseDict(old, new(arguments.TrainingArguments)), "eval_strategy now")
	err := arguments.Parse([]string{"--evaluation_strategy", "epoch"}, new(arguments.TrainingArguments))
	assert.ErrorContains(t, err, "eval_strategy now")
}
