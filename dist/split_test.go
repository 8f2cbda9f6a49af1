package dist_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
)

func TestAGroupIsSplitByColorInTheOrderOfTheRanks(t *testing.T) {
	all(t, together(t, 5, nil, func(ctx context.Context, g *dist.Group) error {
		sub, err := dist.Split(ctx, g, g.Rank()%2) // ranks 0 2 4, and 1 3
		if err != nil {
			return err
		}
		defer func() { _ = sub.Close() }()
		v := []float64{float64(g.Rank() + 1)}
		if err := dist.AllReduce(ctx, sub, v, dist.Product); err != nil {
			return err
		}
		want := []float64{1 * 3 * 5, 2 * 4}[g.Rank()%2]
		if v[0] != want || sub.Rank() != g.Rank()/2 || sub.World() != 3-g.Rank()%2 || sub.LocalRank() != g.LocalRank() {
			return fmt.Errorf("rank %d of %d has %v, want %v", sub.Rank(), sub.World(), v, want)
		}
		return g.Barrier(ctx)
	}))
}

func TestAMeshHasReplicasOfShards(t *testing.T) {
	all(t, together(t, 4, nil, func(ctx context.Context, g *dist.Group) error {
		m, err := dist.NewMesh(ctx, g, 2)
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }()
		shards, err := m.Shard.AllGather(ctx, []byte{byte(g.Rank())})
		if err != nil {
			return err
		}
		replicas, err := m.Replicate.AllGather(ctx, []byte{byte(g.Rank())})
		if err != nil {
			return err
		}
		got := fmt.Sprint(shards, replicas)
		if want := []string{"[[0] [1]] [[0] [2]]", "[[0] [1]] [[1] [3]]", "[[2] [3]] [[0] [2]]",
			"[[2] [3]] [[1] [3]]"}[g.Rank()]; got != want {
			return fmt.Errorf("rank %d gathered %s, want %s", g.Rank(), got, want)
		}
		if _, err := dist.NewMesh(ctx, g, 3); err == nil || err.Error() !=
			"dist: NewMesh: 4 processes cannot be divided into replicas of 3" {
			return fmt.Errorf("3 shards: %w", err)
		}
		return g.Barrier(ctx)
	}))
}

func TestAPartEndsWithTheWholeAndNamesItself(t *testing.T) {
	for rank, err := range together(t, 4, nil, func(ctx context.Context, g *dist.Group) error {
		sub, err := dist.Split(ctx, g, g.Rank()/2)
		if err != nil {
			return err
		}
		switch g.Rank() {
		case 3:
			return g.Close() // also ends its subgroup
		case 2:
			return sub.Barrier(ctx)
		}
		return sub.Barrier(ctx) // the other subgroup does not notice
	}) {
		if rank != 2 {
			require.NoError(t, err, "rank %d", rank)
			continue
		}
		require.ErrorIs(t, err, dist.ErrPeerLeft)
		assert.ErrorContains(t, err, "the group of ranks 2, 3: rank 0: Barrier()")
	}
}

func TestColorsAreChecked(t *testing.T) {
	_, err := dist.Split(t.Context(), nil, -1)
	require.EqualError(t, err,
		"dist: Split: the color is -1; want 0 or more, the same for all processes of a group")
	one, err := dist.Split(t.Context(), nil, 3)
	require.NoError(t, err)
	assert.Equal(t, 1, one.World())
}
