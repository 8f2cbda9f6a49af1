package accelerate_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

var drawn sync.Mutex // protects the generator that the ranks of a test share

// sharedLoop is the loop of one rank over twelve batches, in windows of two.
type sharedLoop struct {
	acc   *accelerate.Accelerator
	model []*nn.Linear
	opt   *accelerate.Optimizer
	group *dist.Group
}

func newSharedLoop(g *dist.Group, s shard.Strategy) (l *sharedLoop, err error) {
	l = &sharedLoop{group: g}
	if l.acc, err = accelerate.New(accelerate.Options{Group: g, Sharding: s,
		Accumulation: accelerate.Accumulation{Steps: 2}}); err != nil {
		return nil, err
	}
	drawn.Lock()
	torch.ManualSeed(3)
	for range 3 {
		l.model = append(l.model, nn.NewLinear(3, 3, nil))
	}
	drawn.Unlock()
	nn.To(l.model, torch.TensorOptions{DType: torch.Float64})
	if err := l.acc.PrepareModel(l.model); err != nil {
		return nil, err
	}
	l.opt, err = l.acc.BuildOptimizer(optim.AdamW{}, nil, 0.05)
	return l, err
}

func (l *sharedLoop) forward(batch int) torch.Tensor {
	x := torch.From([]float64{float64(batch), float64(l.group.Rank()) + 0.5, 1, 0.1, -float64(batch), 2}, 2, 3).Sin()
	for _, m := range l.model {
		x = m.Forward(x).Tanh()
	}
	return x.Square().Mean(torch.DefaultDType)
}

func (l *sharedLoop) train(from, to int) error {
	for batch := from; batch < to; batch++ {
		if err := l.acc.Accumulate(func() error {
			l.acc.Backward(l.forward(batch))
			if l.acc.SyncGradients() {
				norm, err := l.acc.ClipGradNorm(nn.Params(l.model), 0.1)
				if err != nil {
					return err
				}
				if !(norm.Item() > 0) {
					return fmt.Errorf("the norm is %g", norm.Item())
				}
				if err := l.acc.ClipGradValue(nn.Params(l.model), 0.05); err != nil {
					return err
				}
			}
			if err := l.opt.Step(); err != nil {
				return err
			}
			l.opt.ZeroGrad()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (l *sharedLoop) weights() (all []float64, err error) {
	if err := l.acc.Summon(); err != nil {
		return nil, err
	}
	for _, p := range nn.Params(l.model) {
		all = append(all, torch.Values[float64](p.Tensor.Detach())...)
	}
	return all, nil
}

func TestALoopIsTheSameHoweverItsModelIsSharded(t *testing.T) {
	testenv.RequireTorch(t)
	for world := 1; world <= 3; world++ {
		var want []float64
		for _, s := range []shard.Strategy{0, shard.ZeroRedundancyOptimizer, shard.ShardGradOp, shard.FullShard} {
			dir, ends := t.TempDir(), make([][]float64, world)
			for rank, err := range ranktest.Together(t, world, nil, func(_ context.Context, g *dist.Group) error {
				l, err := newSharedLoop(g, s)
				if err != nil {
					return err
				}
				if err := l.train(0, 6); err != nil {
					return err
				}
				path, err := l.acc.SaveState(filepath.Join(dir, "state"))
				if err != nil {
					return err
				}
				if err := l.train(6, 12); err != nil {
					return err
				}
				got, err := l.weights()
				if err != nil {
					return err
				}
				again, err := newSharedLoop(g, s)
				if err != nil {
					return err
				}
				if err := errors.Join(again.acc.LoadState(path), again.train(6, 12)); err != nil {
					return err
				}
				second, err := again.weights()
				if err != nil {
					return err
				}
				tolerance := 0.0
				if s == 0 && world > 2 { // PyTorch's reducer reorders its buckets after its first pass
					tolerance = 1e-12
				}
				assert.InDeltaSlice(t, got, second, tolerance, "a run that was loaded, %s, rank %d of %d", s, g.Rank(), world)
				ends[g.Rank()] = got
				return nil
			}) {
				require.NoError(t, err, "%s, rank %d of %d", s, rank, world)
			}
			if s == 0 {
				want = ends[0]
			}
			for rank, got := range ends {
				require.InDeltaSlice(t, want, got, 1e-12, "%s, rank %d of %d", s, rank, world)
			}
			if s != 0 {
				out := t.TempDir()
				require.NoError(t, sharded.Convert(filepath.Join(dir, "state"), out))
				assert.Len(t, golden.Load(t, filepath.Join(out, "model.safetensors")).Names(), 6)
			}
		}
	}
}

func TestWhatALoopCannotShardIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	_, err := accelerate.New(accelerate.Options{Sharding: shard.FullShard})
	require.ErrorContains(t, err, "Options.Sharding is FullShard, but Options.Group is nil")
	for _, err := range ranktest.Together(t, 1, nil, func(_ context.Context, g *dist.Group) error {
		_, err := accelerate.New(accelerate.Options{Group: g, Sharding: 7})
		assert.ErrorContains(t, err, "Options.Sharding is Strategy(7)")
		_, err = accelerate.New(accelerate.Options{Group: g, Sharding: 1, Project: accelerate.Project{PythonFiles: true}})
		_, errReplicas := accelerate.New(accelerate.Options{Group: g, ShardingReplicas: 2})
		assert.ErrorContains(t, errReplicas, "Options.ShardingReplicas is 2, but Sharding is not set")
		_, errStatic := accelerate.New(accelerate.Options{Group: g, Sharding: 1, Distributed: ddp.Options{StaticGraph: true}})
		assert.ErrorContains(t, errStatic, "Options.Distributed.StaticGraph is set, which cannot be combined")
		assert.ErrorContains(t, err, "PythonFiles cannot be combined")
		l, err := newSharedLoop(g, shard.ShardGradOp)
		if err != nil {
			return err
		}
		assert.ErrorContains(t, l.acc.PrepareModel(nn.NewLinear(1, 1, nil)), "divides a single model")
		_, err = l.acc.BuildOptimizer(optim.SGD{}, nil, 0.1)
		assert.ErrorContains(t, err, "there is one optimizer")
		whole := l.acc.PrepareOptimizer(optim.NewSGD(nn.Params(l.model), optim.SGD{}), 0.1)
		assert.ErrorContains(t, whole.Step(), "make it with Accelerator.BuildOptimizer")
		return nil
	}) {
		require.NoError(t, err)
	}
}
