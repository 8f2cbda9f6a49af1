package grpo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// TestRunsOnTwoProcessesHaveTheBitsOfGRPOTrainer: what each process generates, the weights, and what
// is logged of the completions of both.
func TestRunsOnTwoProcessesHaveTheBitsOfGRPOTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Ranks {
		t.Run(run[0].Name, func(t *testing.T) {
			goldencount.Start(t, "models", "grpo on two processes "+run[0].Name)
			s := run[0].Settings
			s.Steps = max(s.Steps, 1)
			batch, accumulate := 8*s.Steps/4, max(1, s.Accumulate)
			var models [2]*auto.CausalLanguageModel
			var tasks [2]*grpo.Task
			var history [2][]trainer.Logs
			for rank := range models {
				models[rank] = r.model(t, "llama")
				rewards := []grpo.Reward{evens, bonus}
				if !run[0].Two {
					rewards = rewards[:1]
				}
				var err error
				tasks[rank], err = models[rank].GRPOTask(s.options(rewards...))
				require.NoError(t, err)
				recorded := run[rank].Generated
				grpo.Watch(tasks[rank], func(completions [][]int64) [][]int64 {
					if len(recorded) == 0 {
						return completions
					}
					want := recorded[0]
					recorded = recorded[1:]
					if testenv.SameBits() {
						assert.Equal(t, want, completions, "rank %d", rank)
					}
					return want // with other bits, another token may be drawn now and then
				})
			}
			samples := encode(t, models[0], r.Prompts)
			for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
				task := tasks[g.Rank()]
				optimizer, err := optim.ByName("adamw_torch_fused", optim.Arguments{LearningRate: 1e-3})
				if err != nil {
					return err
				}
				step, err := engine.New(task, engine.Options{Optimizer: optimizer})
				if err != nil {
					return err
				}
				fit, err := trainer.New(step, trainer.Options{MaxSteps: s.MaxSteps, BatchSize: batch, Accumulate: accumulate,
					Group: g, Order: task.Order(2*batch, 42), Log: trainer.Every(1, trainer.Update), Save: trainer.Never,
					Semantics: semantics.HuggingFace, Progress: io.Discard})
				if err != nil {
					return err
				}
				result, err := fit.Fit(ctx, data.Slice[grpo.Sample](samples), nil)
				history[g.Rank()] = result.History
				return err
			}) {
				require.NoError(t, err, "rank %d", rank)
			}
			for rank, m := range models {
				if testenv.SameBits() {
					assert.Equal(t, run[rank].Final, modeltest.Trained(m), "rank %d", rank)
				}
			}
			require.Len(t, history[0], len(run[0].Logs)+1, "the last row sums up the run")
			for i, want := range run[0].Logs {
				modeltest.SameNumbers(t, want, history[0][i], 1e-3)
			}
		})
	}
}

// together trains a tiny model on processes, two prompts a batch on each.
func together(t *testing.T, world, updates int, change func(o *trainer.Options, rank int),
	options grpo.TaskOptions) (weights []map[string]string, logs []trainer.Logs, errs []error) {
	t.Helper()
	var tasks []*grpo.Task
	var models []*auto.CausalLanguageModel
	for range world {
		models = append(models, tiny(t))
		tasks = append(tasks, grpoTask(t, models[len(models)-1], options))
	}
	errs = ranktest.Together(t, world, nil, func(ctx context.Context, g *dist.Group) error {
		task := tasks[g.Rank()]
		step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
		if err != nil {
			return err
		}
		o := trainer.Options{MaxSteps: updates, BatchSize: 2, Group: g, Order: task.Order(2*world, 1), Save: trainer.Never,
			Log: trainer.Every(1, trainer.Update), Progress: io.Discard}
		change(&o, g.Rank())
		fit, err := trainer.New(step, o)
		if err != nil {
			return err
		}
		r, err := fit.Fit(ctx, data.Slice[grpo.Sample](samples(9)), data.Slice[grpo.Sample](samples(3)))
		if g.Main() {
			logs = r.History
		}
		return err
	})
	for _, m := range models {
		weights = append(weights, modeltest.Trained(m))
	}
	return weights, logs, errs
}

// TestARunOnTwoProcessesContinuesBitForBit from each of its checkpoints: each process has the
// completions that it has not been trained on yet.
func TestARunOnTwoProcessesContinuesBitForBit(t *testing.T) {
	for _, r := range []*grpo.RLOO{nil, {NormalizeAdvantages: true}} {
		o := options()
		o.StepsPerGeneration, o.NumIterations, o.Beta, o.RLOO = 2, 2, 0.1, r
		continues(t, o)
	}
}

// continues compares a run on two processes with those that begin at its checkpoints.
func continues(t *testing.T, o grpo.TaskOptions) {
	t.Helper()
	dir := t.TempDir()
	want, logs, errs := together(t, 2, 6, func(o *trainer.Options, _ int) {
		o.OutputDir, o.Save, o.Eval = dir, trainer.Every(1, trainer.Update), trainer.Every(3, trainer.Update)
	}, o)
	require.NoError(t, errors.Join(errs...))
	assert.Equal(t, want[0], want[1])
	for from := 1; from < 6; from++ {
		got, again, errs := together(t, 2, 6, func(o *trainer.Options, _ int) {
			o.ResumeFrom = filepath.Join(dir, fmt.Sprint("checkpoint-", from))
			o.Eval = trainer.Every(3, trainer.Update)
		}, o)
		require.NoError(t, errors.Join(errs...), "from %d", from)
		assert.Equal(t, want, got, "from %d", from)
		assert.Empty(t, cmp.Diff(withoutTimes(logs), withoutTimes(again)), "from %d", from)
	}
}

// TestAnotherNumberOfProcesses continues a run between two generations, and not within one.
func TestAnotherNumberOfProcesses(t *testing.T) {
	o := options()
	o.NumIterations = 2
	dir := t.TempDir()
	_, _, errs := together(t, 2, 3, func(o *trainer.Options, _ int) {
		o.GlobalBatch, o.OutputDir, o.Save = 4, dir, trainer.Every(1, trainer.Update)
	}, o)
	require.NoError(t, errors.Join(errs...))
	from := func(step int) error {
		_, _, errs := together(t, 1, 4, func(o *trainer.Options, _ int) {
			o.GlobalBatch, o.BatchSize, o.Order = 4, 4, data.RepeatSampler{Chunk: 4, Times: 2, Seed: 1}
			o.ResumeFrom = filepath.Join(dir, fmt.Sprint("checkpoint-", step))
		}, o)
		return errs[0]
	}
	require.ErrorContains(t, from(1), "only between two generations")
	require.NoError(t, from(2))
}

// TestAnErrorOfOneProcessEndsAll: a reward function that fails on one process does not leave the
// others waiting for its rewards.
func TestAnErrorOfOneProcessEndsAll(t *testing.T) {
	o := options()
	o.Rewards = []grpo.Reward{{Name: "breaks", Func: func(c grpo.Completions) ([]float64, error) {
		for _, s := range c.Samples {
			if s.Data == 5.0 {
				return nil, errors.New("the judge has left")
			}
		}
		return make([]float64, len(c.IDs)), nil
	}}}
	_, _, errs := together(t, 2, 6, func(*trainer.Options, int) {}, o)
	for rank, err := range errs {
		require.ErrorContains(t, err, "the judge has left", "rank %d", rank)
	}
}

func TestShardedWeightsAreRefused(t *testing.T) {
	_, err := engine.New(grpoTask(t, tiny(t), options()), engine.Options{Sharding: shard.FullShard})
	require.ErrorContains(t, err, "grpo: Options.Sharding is")
}
