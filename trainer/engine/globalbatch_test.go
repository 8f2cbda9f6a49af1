package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

const globalBatch = 12

// globalRun trains on 31 samples; five more fill up the third batch of an epoch.
func globalRun(dir string, s shard.Strategy, batchSize int) *towerRun {
	return &towerRun{calm: true, samples: 31, engine: engine.Options{Optimizer: optim.AdamW{LR: 0.02}, Sharding: s},
		trainer: trainer.Options{Epochs: 3, BatchSize: batchSize, GlobalBatch: globalBatch, OutputDir: dir,
			ResumeFrom: trainer.Latest, Save: trainer.Every(1000, trainer.Update),
			Log: trainer.Every(1, trainer.Update)}}
}

// inOrder returns the samples in the order of the global batches, given what each rank has trained
// on in batches of a size.
func inOrder(outcomes []*towerRun, batchSize int) (all []int) {
	for at := 0; at < len(outcomes[0].trained); at += batchSize {
		for _, o := range outcomes {
			all = append(all, o.trained[at:at+batchSize]...)
		}
	}
	return all
}

func TestARunContinuesOnAnotherNumberOfProcesses(t *testing.T) {
	testenv.RequireTorch(t)
	var want []int
	for epoch := range 3 {
		order := data.Permutation(42+uint64(epoch), 31)
		want = append(append(want, order...), order[:5]...)
	}
	full, grad, zero := shard.FullShard, shard.ShardGradOp, shard.ZeroRedundancyOptimizer
	for _, kinds := range [][]shard.Strategy{{0, 0, 0, 0}, {full, full, full, full},
		{full, 0, full, 0}, {0, grad, 0, zero}} { // sharded checkpoints continue unsharded runs, and vice versa
		s := kinds[0]
		whole := ranks(t, 1, func() *towerRun { return globalRun(t.TempDir(), s, 3) })[0]
		require.Equal(t, want, whole.trained)

		dir := filepath.Join(t.TempDir(), "run")
		var trained []int
		for i, part := range []struct{ world, batchSize, until int }{{4, 1, 2}, {2, 3, 4}, {1, 2, 7}, {3, 2, 0}} {
			outcomes := make([]*towerRun, part.world)
			for rank, err := range ranktest.Together(t, part.world, nil, func(ctx context.Context,
				g *dist.Group) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				r := globalRun(dir, kinds[i], part.batchSize)
				outcomes[g.Rank()] = r
				if g.Main() && part.until > 0 {
					r.trainer.Callbacks = []any{leavesAt{part.until, cancel}}
				}
				return r.do(ctx, g)
			}) {
				if part.until == 0 {
					require.NoError(t, err, "rank %d", rank)
					continue
				}
				stop, ok := errors.AsType[*trainer.InterruptedError](err)
				require.True(t, ok, "%v, part %d, rank %d: %v", kinds, i, rank, err)
				require.Equal(t, part.until, stop.GlobalStep)
			}
			trained = append(trained, inOrder(outcomes, part.batchSize)...)
			if part.until > 0 {
				continue
			}
			for name, w := range whole.weights {
				assert.InDeltaSlice(t, w, outcomes[0].weights[name], 1e-9, "%v: %s", kinds, name)
			}
			for i, row := range whole.history {
				if loss, ok := row["loss"]; ok {
					assert.InDelta(t, loss, outcomes[0].history[i]["loss"], 1e-6*math.Abs(loss), fmt.Sprint("row ", i))
				}
			}
		}
		require.Equal(t, want, trained, "each sample comes once, in the order of the unbroken run")
	}
}

func TestTheSameNumberOfProcessesContinuesBitForBitWithGlobalBatch(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	run := func(resume bool) func() *towerRun {
		return func() *towerRun {
			r := globalRun(filepath.Join(dir, "run"), 0, 2)
			r.calm, r.trainer.ResumeFrom, r.trainer.Save = false, "", trainer.Every(2, trainer.Update)
			if resume {
				r.trainer.OutputDir, r.trainer.ResumeFrom = "", filepath.Join(dir, "run", "checkpoint-4")
				r.trainer.Save = trainer.Never
			}
			return r
		}
	}
	assert.Equal(t, ranks(t, 3, run(false))[2].weights, ranks(t, 3, run(true))[2].weights)
}

func TestGlobalBatchMustDivide(t *testing.T) {
	testenv.RequireTorch(t)
	step, err := engine.New(towerTask{run: &towerRun{}, model: newTower()}, engine.Options{})
	require.NoError(t, err)
	for want, o := range map[string]trainer.Options{
		"want a multiple of 5, since 1 processes with BatchSize 5": {GlobalBatch: 12, BatchSize: 5},
		"want 0, or Accumulate 0":                                  {GlobalBatch: 12, BatchSize: 6, Accumulate: 2},
		"want 0, since LimitBatches counts":                        {GlobalBatch: 12, BatchSize: 6, LimitBatches: 2},
		"want a positive number of samples":                        {GlobalBatch: -1},
	} {
		_, err := trainer.New(step, quiet(o))
		assert.ErrorContains(t, err, want)
	}
}

// An order that each process draws from its own random numbers would differ between processes whose
// random numbers start over.
func TestAnOrderOfRandomNumbersIsNotContinuedOnOtherProcesses(t *testing.T) {
	testenv.RequireTorch(t)
	dir := filepath.Join(t.TempDir(), "run")
	drawn := func() *towerRun {
		r := globalRun(dir, 0, 2)
		r.drawn = true
		return r
	}
	ranks(t, 2, drawn)
	for _, err := range ranktest.Together(t, 1, nil, func(ctx context.Context, g *dist.Group) error {
		return drawn().do(ctx, g)
	}) {
		require.ErrorContains(t, err, "Options.Order is drawn from random numbers that differ from process to process")
	}
}
