package local_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/local"
)

func TestGoroutinesAreAGroup(t *testing.T) {
	for _, world := range []int{1, 2, 5} {
		for rank, err := range local.Run(t.Context(), world, nil, func(ctx context.Context, g *dist.Group) error {
			all, err := g.AllGather(ctx, fmt.Append(nil, g.Rank(), " of ", g.World(), ", local ", g.LocalRank()))
			for rank, text := range all {
				assert.Equal(t, fmt.Sprint(rank, " of ", world, ", local ", rank), string(text))
			}
			return err
		}) {
			require.NoError(t, err, "rank %d of %d", rank, world)
		}
	}
}

func TestTheOthersLearnThatOneHasReturned(t *testing.T) {
	failed := errors.New("rank 1 has had enough")
	errs := local.Run(t.Context(), 3, nil, func(ctx context.Context, g *dist.Group) error {
		if g.Rank() == 1 {
			return failed
		}
		return g.Barrier(ctx)
	})
	require.Equal(t, failed, errs[1])
	for _, rank := range []int{0, 2} {
		assert.ErrorIs(t, errs[rank], dist.ErrPeerLeft, "rank %d", rank)
	}
}

func TestOptionsOfEachCanBeChangedAndNoProcessesAreRefused(t *testing.T) {
	errs := local.Run(t.Context(), 2, func(o *dist.Options) { o.PeerTimeout = -1 },
		func(context.Context, *dist.Group) error { return nil })
	for rank, err := range errs {
		assert.ErrorContains(t, err, "PeerTimeout", "rank %d", rank)
	}
	assert.ErrorContains(t, errors.Join(local.Run(t.Context(), 0, nil, nil)...), "want at least 1")
}

func ExampleRun() {
	errs := local.Run(context.Background(), 3, nil, func(ctx context.Context, g *dist.Group) error {
		sum := []int64{int64(g.Rank())}
		err := dist.AllReduce(ctx, g, sum, dist.Sum)
		if g.Main() {
			fmt.Println("the sum of the ranks is", sum[0])
		}
		return err
	})
	fmt.Println(errs)
	// Output:
	// the sum of the ranks is 3
	// [<nil> <nil> <nil>]
}
