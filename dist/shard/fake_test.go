package shard_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// wide has more elements than there are processes, and parameters smaller than a part.
func wide() nn.Sequential {
	m := nn.Sequential{nn.NewLinear(61, 67, nil), nn.NewLinear(67, 3, nil)}
	torch.NoGrad(func() {
		for i, p := range nn.Params(m) {
			n := p.Tensor.Numel()
			p.Tensor.Copy_(torch.Arange(n).ToDType(torch.Float32).AddScalar(10000 * (i + 1)).Reshape(p.Tensor.Shape()...))
		}
	})
	return m
}

// piecesOf returns the pieces of one rank in a fake group.
func piecesOf(t *testing.T, rank, world int) []shard.Piece {
	g, err := dist.Init(t.Context(), dist.Options{Fake: true, Rank: rank, World: world})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	m, err := shard.New(t.Context(), g, wide(), shard.Options{Strategy: shard.FullShard, Root: true})
	require.NoError(t, err)
	defer m.Close()
	return m.Pieces()
}

// With 1,024 processes, each element of each parameter belongs to exactly one, and the files they
// write form one checkpoint from which any range can be read.
func TestThePlanAndTheCheckpointOf1024ProcessesHaveEveryElementOnce(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("a thousand files, one after another, take half a minute under the race detector")
	}
	const world, id = 1024, "a run"
	whole := nn.Params(wide())
	path := t.TempDir() + "/step-7"
	folder, err := sharded.Begin(path)
	require.NoError(t, err)
	var written []sharded.Written
	next := map[string]int64{} // the first element of each parameter that the next process should hold
	torch.Scope(func() {
		for rank := range world {
			var entries []sharded.Entry
			most := int64(0)
			for _, p := range piecesOf(t, rank, world) {
				n := p.Tensor.Numel()
				if most += n; n > 0 {
					require.Equal(t, next[p.Name], p.Offset, "%s of rank %d", p.Name, rank)
					next[p.Name] += n
				}
				entries = append(entries, sharded.Entry{Name: p.Name, DType: safetensors.F32, Shape: p.Shape, Offset: p.Offset,
					Length: n, Data: safetensors.Bytes(p.Tensor.Bytes())})
			}
			assert.LessOrEqual(t, most, int64(5), "%d of 4,358 elements are rank %d's, want an even part", most, rank)
			w, err := sharded.WriteFile(folder, rank, world, id, entries)
			require.NoError(t, err)
			written = append(written, w)
		}
	})
	for _, p := range whole {
		require.Equal(t, p.Tensor.Numel(), next[p.Name], p.Name)
	}
	require.NoError(t, sharded.WriteIndex(folder, id, 7, nil, written))
	require.NoError(t, sharded.Publish(path))
	r, err := sharded.Open(path)
	require.NoError(t, err)
	for _, p := range whole {
		want := p.Tensor.Bytes()
		for _, cut := range slices.Compact([]int64{0, p.Tensor.Numel() / 3, p.Tensor.Numel() - 1}) {
			var got bytes.Buffer
			require.NoError(t, r.ReadRange(p.Name, cut, p.Tensor.Numel()-cut, &got))
			require.True(t, bytes.Equal(want[4*cut:], got.Bytes()), "%s from %d on", p.Name, cut)
		}
	}
	require.NoError(t, r.Close())
}

// There is only one process, and the context has ended before anything was sent.
func TestAPassUnderAnEndedContextIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := shard.New(t.Context(), nil, nn.NewLinear(3, 3, nil), shard.Options{Strategy: shard.ShardGradOp})
	require.NoError(t, err)
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.BeforeForward(ctx, true), context.Canceled)
	require.ErrorIs(t, m.Summon(ctx), context.Canceled)
	require.NoError(t, m.BeforeForward(t.Context(), true))
}

func TestQuantizedLayersAreNoUnits(t *testing.T) {
	testenv.RequireTorch(t)
	l := nn.NewLinear(64, 3, nil)
	w, err := quantized.New(l.Weight, quantized.Config{})
	require.NoError(t, err)
	l.SetQuantized(w)
	_, err = shard.FullyShard(t.Context(), nil, nn.Sequential{l})
	require.ErrorContains(t, err, "the weight of 0 is quantized")
	m, err := shard.New(t.Context(), nil, l, shard.Options{Strategy: shard.ShardGradOp})
	require.NoError(t, err, "its bias is trained")
	m.Close()
}
