package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A run whose model was made in nn.Defer ends with the same weights as one whose model was made
// immediately.
func TestARunOfADeferredModelIsThatOfAnyOther(t *testing.T) {
	testenv.RequireTorch(t)
	for _, world := range []int{1, 2} {
		for _, s := range []shard.Strategy{0, shard.ShardGradOp, shard.FullShard} {
			var want, got []string
			for _, deferred := range []bool{false, true} {
				var mu sync.Mutex
				var weights []string
				for rank, err := range ranktest.Together(t, world, nil, func(ctx context.Context, g *dist.Group) error {
					step, err := engine.NewFromInit(func() (engine.Task[data.Example, engine.Examples], error) {
						var m *wide
						if !deferred {
							return engine.Classify(newWide()), nil
						}
						nn.Defer(func() { m = newWide() })
						return engine.Classify(m), nil
					}, engine.Options{Sharding: s})
					if err != nil {
						return err
					}
					fit, err := trainer.New(step, quiet(trainer.Options{Group: g, MaxSteps: 2, BatchSize: 4, Seed: 5}))
					if err != nil {
						return err
					}
					if _, err := fit.Fit(ctx, ring(16), nil); err != nil {
						return err
					}
					text := ""
					for _, p := range nn.StateDict(step.Model()) {
						text += fmt.Sprintln(p.Name, torch.Values[float32](p.Tensor.Detach()))
					}
					mu.Lock()
					weights = append(weights, text)
					mu.Unlock()
					return nil
				}) {
					require.NoError(t, err, "rank %d of %d, %s", rank, world, s)
				}
				want, got = got, weights
			}
			require.Equal(t, want, got, "%d ranks, %s", world, s)
		}
	}
}

// wide has a weight of 64 KiB, which nn.Defer does not allocate.
type wide struct {
	In     *nn.Linear `module:"in"`
	Hidden *nn.Linear `module:"hidden"`
	Out    *nn.Linear `module:"out"`
}

func newWide() *wide {
	return &wide{nn.NewLinear(2, 128, nil), nn.NewLinear(128, 128, nil), nn.NewLinear(128, 2, nil)}
}

func (m *wide) Forward(x torch.Tensor) torch.Tensor {
	return m.Out.Forward(m.Hidden.Forward(m.In.Forward(x).ReLU()).ReLU())
}
