package shard_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// All replicas start with the weights of rank 0, although each rank draws its own, and a checkpoint
// contains every part once.
func TestReplicasAreOneModelAndOneCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-1")
	weights := make([]result, 4)
	all(t, together(t, 4, func(ctx context.Context, g *dist.Group) (err error) {
		var m *tower
		torch.ForkRNG(func() {
			torch.ManualSeed(uint64(g.Rank()))
			m = newTower()
		})
		p, err := shard.NewLayered(ctx, g, m, shard.FullShard, 2, ddp.Options{})
		if err != nil {
			return err
		}
		defer p.Close()
		opt, err := p.Optimizer(optim.AdamW{}, nil)
		if err != nil {
			return err
		}
		held := int64(0)
		for _, piece := range p.Pieces() {
			held += piece.Tensor.Numel()
		}
		if want := int64(4*(128*128+128)) / 2; held != want {
			return fmt.Errorf("%d elements on this process, want half of each replica, %d", held, want)
		}
		if err := p.Save(ctx, path, 1, opt, nil); err != nil {
			return err
		}
		if err := p.Summon(ctx); err != nil {
			return err
		}
		weights[g.Rank()] = result{}
		for _, q := range nn.Params(m) {
			weights[g.Rank()][q.Name] = torch.Values[float64](q.Tensor.Detach().ToDType(torch.Float64))
		}
		return nil
	}))
	for rank := range weights {
		require.NoError(t, compare(weights[rank], weights[0], 0), "rank %d", rank)
	}
	r, err := sharded.Open(path)
	require.NoError(t, err)
	defer r.Close() //nolint:errcheck // it was only read
	for _, tensor := range r.Tensors {
		for _, part := range tensor.Parts {
			assert.Less(t, part.File, 2, "%s is written by the first replica", tensor.Name)
		}
	}
}

func TestReplicasThatCannotBeAreRefused(t *testing.T) {
	assert.ErrorContains(t, shard.CheckLayered("x", 0, 2, ddp.Options{}), "ShardingReplicas is 2, but Sharding is not set")
	assert.ErrorContains(t, shard.CheckLayered("x", shard.FullShard, -2, ddp.Options{}), "ShardingReplicas is -2; want")
	for rank, err := range together(t, 3, func(ctx context.Context, g *dist.Group) error {
		_, err := shard.NewLayered(ctx, g, newTower(), shard.FullShard, 2, ddp.Options{})
		assert.ErrorContains(t, err, "3 processes cannot be 2 replicas of two shards or more each")
		mesh, err := dist.NewMesh(ctx, g, 1)
		if err != nil {
			return err
		}
		defer mesh.Close() //nolint:errcheck // it is over
		_, err = shard.New(ctx, g, newTower(), shard.Options{Strategy: shard.ShardGradOp, Mesh: mesh})
		assert.ErrorContains(t, err, "Options.Mesh is 3 replicas of 1 shards")
		p, err := shard.NewLayered(ctx, g, newTower(), shard.ShardGradOp, shard.OnePerMachine, ddp.Options{})
		if err == nil { // the processes report no host names, so each is taken to be its own machine
			p.Close()
		}
		return nil
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
}
