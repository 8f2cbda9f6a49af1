package rlootest

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
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

// TestRunsOnTwoProcessesHaveTheBitsOfRLOOTrainer: what each process generates, its advantages, the
// weights, and what is logged of the completions of both.
func TestRunsOnTwoProcessesHaveTheBitsOfRLOOTrainer(t *testing.T) {
	r := load(t)
	for _, runs := range r.Ranks {
		t.Run(runs[0].Name, func(t *testing.T) {
			goldencount.Start(t, "models", "rloo on two processes "+runs[0].Name).Explain(testenv.Deviation())
			var models [2]*auto.CausalLanguageModel
			var tasks [2]*grpo.Task
			var written [2]bytes.Buffer
			var history []trainer.Logs
			for rank, run := range runs {
				models[rank] = r.model(t, "llama")
				tasks[rank] = run.task(t, models[rank], &written[rank])
			}
			samples := encode(t, models[0], r.Prompts)
			s, batch := runs[0].Settings, runs[0].batch()
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
				fit, err := trainer.New(step, trainer.Options{MaxSteps: s.MaxSteps, BatchSize: batch, Accumulate: s.Accumulate,
					Group: g, Order: task.Order(2*batch, 42), Log: trainer.Every(1, trainer.Update), Save: trainer.Never,
					Semantics: semantics.HuggingFace, Progress: io.Discard})
				if err != nil {
					return err
				}
				result, err := fit.Fit(ctx, data.Slice[grpo.Sample](samples), nil)
				if g.Main() {
					history = result.History
				}
				return err
			}) {
				require.NoError(t, err, "rank %d", rank)
			}
			for rank, run := range runs {
				run.sameCompletions(t, &written[rank])
				run.sameWeights(t, models[rank])
			}
			require.Len(t, history, len(runs[0].Logs)+1, "the last row sums up the run")
			for i, want := range runs[0].Logs {
				modeltest.SameNumbers(t, want, history[i], 1e-3)
			}
		})
	}
}
