package data

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Drawing index by index gives the same order as drawing all at once, which is PyTorch's.
func TestOrdersIndexByIndexAreTheirIndices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3000).Draw(t, "n")
		epoch := rapid.IntRange(0, 3).Draw(t, "epoch")
		seed := rapid.Uint64().Draw(t, "seed")
		for _, o := range []Order{Sequential{}, Shuffled{Seed: seed}} {
			next, got := sequenceOf(o, epoch, n), []int{}
			for range n {
				got = append(got, next())
			}
			require.True(t, slices.Equal(o.Indices(epoch, n), got), "%T", o)
		}
	})
}

// Batches are the same from any position, whichever way the order is computed.
func TestBatchesIndexByIndexAreThoseOfTheWholeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.IntRange(1, 4).Draw(t, "processes")
		o := LoaderOptions{BatchSize: world * rapid.IntRange(1, 5).Draw(t, "size"), Order: Shuffled{Seed: 3},
			DropLast: rapid.Bool().Draw(t, "drop"), Workers: 2,
			Shard: Shard{Rank: rapid.IntRange(0, world-1).Draw(t, "rank"), WorldSize: world,
				SplitBatches: rapid.Bool().Draw(t, "split"), Uneven: rapid.Bool().Draw(t, "uneven")}}
		n := rapid.IntRange(0, 60).Draw(t, "samples")
		epoch := func() (all [][]int) {
			l, err := NewLoader(Func(n, func(i int) (int, error) { return i, nil }),
				func(s []int) ([]int, error) { return s, nil }, o)
			require.NoError(t, err)
			skip := rapid.IntRange(0, l.Len()).Draw(t, "skip")
			for b, err := range l.Epoch(context.Background(), 1, 0) {
				require.NoError(t, err)
				all = append(all, b)
			}
			require.Len(t, all, l.Len())
			rest := [][]int{}
			for b, err := range l.Epoch(context.Background(), 1, skip) {
				require.NoError(t, err)
				rest = append(rest, b)
			}
			require.Equal(t, append([][]int{}, all[skip:]...), rest)
			if skip < len(all) {
				require.Equal(t, all[skip], l.Indices(1, skip))
			} else {
				require.Nil(t, l.Indices(1, skip))
			}
			return all
		}
		lazy := epoch()
		o.Order = OrderFunc(Shuffled{Seed: 3}.Indices)
		require.Equal(t, epoch(), lazy)
	})
}

// reversed is a user-defined order that embeds one of this package.
type reversed struct{ Sequential }

func (r reversed) Indices(epoch, n int) []int {
	indices := r.Sequential.Indices(epoch, n)
	slices.Reverse(indices)
	return indices
}

func TestAnOrderThatEmbedsAnotherIsAsked(t *testing.T) {
	l, err := NewLoader(Slice[int]{0, 1, 2}, func(s []int) ([]int, error) { return s, nil }, LoaderOptions{BatchSize: 2,
		Order: reversed{}})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 1}, l.Indices(0, 0))
}

// firstBatch returns the first batch of an epoch and the number of bytes allocated for it.
func firstBatch(t *testing.T, n int, o Order) (batch []int, allocated int64) {
	t.Helper()
	l, err := NewLoader(Func(n, func(i int) (int, error) { return i, nil }),
		func(s []int) ([]int, error) { return s, nil }, LoaderOptions{BatchSize: 32, Order: o, Workers: 1})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b, err := range l.Epoch(t.Context(), 0, 0) {
		require.NoError(t, err)
		batch = b
		break
	}
	runtime.ReadMemStats(&after)
	return batch, int64(after.TotalAlloc - before.TotalAlloc)
}

func TestTheFirstBatchDoesNotWaitForTheLast(t *testing.T) {
	batch, allocated := firstBatch(t, 100_000_000, Sequential{})
	assert.Equal(t, Sequential{}.Indices(0, 32), batch)
	assert.Less(t, allocated, int64(1<<20))

	const n = 1_000_000
	batch, allocated = firstBatch(t, n, Shuffled{Seed: 5})
	assert.Equal(t, Permutation(5, n)[:32], batch)
	assert.Less(t, allocated, int64(4*n+1<<20), "four bytes for each index, and nothing that grows besides")
}
