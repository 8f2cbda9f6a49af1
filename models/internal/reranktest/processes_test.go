package reranktest_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/crossencoder"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TestTwoProcessesTrainWhatOneDoes, each with half of a batch: the adapter of a replicated model, and
// all weights of a model that is sharded.
func TestTwoProcessesTrainWhatOneDoes(t *testing.T) {
	r := load(t)
	list := data.Slice[crossencoder.Sample](samples(r.Rows[:16], trained{Documents: 1, Label: "score"}))
	var drawing sync.Mutex
	run := func(ctx context.Context, g *dist.Group, s shard.Strategy, adapted bool) ([]trainer.Logs, error) {
		m, err := func() (*crossencoder.CrossEncoder, error) {
			drawing.Lock()
			defer drawing.Unlock()
			m, err := crossencoder.Load(ctx, "testdata/saved", auto.Options{Warnings: io.Discard})
			if err == nil && adapted {
				torch.ManualSeed(3)
				err = m.AddLoRA(lora.Config{R: 2})
			}
			return m, err
		}()
		if err != nil {
			return nil, err
		}
		task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Prompt: "w9"})
		if err != nil {
			return nil, err
		}
		step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}, Sharding: s})
		if err != nil {
			return nil, err
		}
		size := 4
		if g != nil {
			size = 2
		}
		fit, err := trainer.New(step, trainer.Options{MaxSteps: 4, BatchSize: size, Group: g, Save: trainer.Never,
			Log: trainer.Every(1, trainer.Update), Progress: io.Discard})
		if err != nil {
			return nil, err
		}
		result, err := fit.Fit(ctx, list, nil)
		if err != nil {
			return nil, err
		}
		return result.History, nil
	}
	for _, s := range []shard.Strategy{0, shard.FullShard} {
		want, err := run(t.Context(), nil, 0, s == 0)
		require.NoError(t, err)
		for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
			got, err := run(ctx, g, s, s == 0)
			if err != nil {
				return err
			}
			for i := range want[:4] {
				for _, name := range []string{"loss", "grad_norm"} {
					if !cmp.Equal(want[i][name], got[i][name], cmpopts.EquateApprox(1e-3, 1e-5)) {
						return fmt.Errorf("%s of update %d is %v, want %v", name, i+1, got[i][name], want[i][name])
					}
				}
			}
			return nil
		}) {
			require.NoError(t, err, "sharding %v, rank %d", s, rank)
		}
	}
}
