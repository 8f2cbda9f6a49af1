package dist_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/dist"
)

func fake(t require.TestingT, rank, world int) *dist.Group {
	g, err := dist.Init(context.Background(), dist.Options{Fake: true, Rank: rank, World: world})
	require.NoError(t, err)
	return g
}

// A fake group returns what real processes that all contribute the same would get.
func TestAFakeGroupAnswersAsProcessesThatHaveTheSame(t *testing.T) {
	calls := func(ctx context.Context, g *dist.Group) (string, error) {
		var b bytes.Buffer
		for _, op := range []dist.Op{dist.Sum, dist.Mean, dist.Max, dist.Min, dist.Product} {
			x := []float64{1.1, -2.7, 0}
			if err := dist.AllReduce(ctx, g, x, op); err != nil {
				return "", err
			}
			fmt.Fprintln(&b, x)
		}
		all, err := g.AllGather(ctx, []byte("part"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s\n", all)
		for root := range g.World() {
			data := []byte("data")
			if err := g.Broadcast(ctx, data, root); err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%s\n", data)
		}
		return b.String(), g.Agree(ctx, "the end")
	}
	for _, world := range []int{1, 2, 5} {
		var want string
		all(t, together(t, world, nil, func(ctx context.Context, g *dist.Group) error {
			text, err := calls(ctx, g)
			if g.Main() {
				want = text
			}
			return err
		}))
		for rank := range world {
			g := fake(t, rank, world)
			got, err := calls(t.Context(), g)
			require.NoError(t, err)
			assert.Equal(t, want, got, "rank %d of %d", rank, world)
			require.NoError(t, g.Close())
			if world > 1 {
				require.ErrorIs(t, g.Barrier(t.Context()), dist.ErrClosed)
			}
		}
	}
}

func TestAFakeGroupWithOthersIsRefused(t *testing.T) {
	for _, o := range []dist.Options{{Fake: true}, {Fake: true, World: 2, Address: "a:1"},
		{Fake: true, World: 2, Checked: true}, {Fake: true, World: 2, Store: true}} {
		_, err := dist.Init(t.Context(), o)
		assert.ErrorContains(t, err, "Options.Fake", "%+v", o)
	}
	_, err := dist.Split(t.Context(), fake(t, 3, 8), 1)
	assert.ErrorContains(t, err, "fake")
}

// The cost of a call on one process does not grow with the number of processes: with 1,024
// processes it allocates as much as with 8, within 5 %.
func TestACallOfOneOf1024ProcessesAllocatesNoMoreThanOneOf8(t *testing.T) {
	allocations := func(world int) float64 {
		g := fake(t, world-1, world)
		ctx, x := context.Background(), make([]float64, 8)
		return testing.AllocsPerRun(20, func() {
			for range 10 {
				require.NoError(t, dist.AllReduce(ctx, g, x, dist.Sum))
				require.NoError(t, g.Agree(ctx, "Backward"))
			}
		})
	}
	few, many := allocations(8), allocations(1024)
	assert.InDelta(t, few, many, 0.05*few)
}

// hosts returns the host names of the processes, by rank, for a number of machines with the same
// number of processes each.
func hosts(machines, each int) (names []string) {
	for m := range machines {
		for range each {
			names = append(names, fmt.Sprint("node", m))
		}
	}
	return names
}

// connections returns the number of connections of each process in the tree.
func connections(parents []int) []int {
	n := make([]int, len(parents))
	for rank, parent := range parents {
		if rank != parent {
			n[rank]++
			n[parent]++
		}
	}
	return n
}

func TestTheTreeOf1024ProcessesOn128Machines(t *testing.T) {
	n := connections(dist.Parents(hosts(128, 8)...))
	assert.Equal(t, 134, n[0], "the 127 other machines, and 7 processes on its own")
	for rank := 1; rank < len(n); rank++ {
		want := 1
		if rank%8 == 0 {
			want = 8 // rank 0, and the other 7 processes of the machine
		}
		require.Equal(t, want, n[rank], "rank %d", rank)
	}
}

// Processes placed on machines in any way form a tree of depth two at most.
func TestEveryPlacementOfUpTo1024ProcessesIsATreeOfTwoSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := hosts(rapid.IntRange(1, 128).Draw(t, "machines"), rapid.IntRange(1, 8).Draw(t, "each"))
		names = rapid.Permutation(names).Draw(t, "placement")
		parents, machines := dist.Parents(names...), map[string]bool{}
		for rank, parent := range parents {
			machines[names[rank]] = true
			require.Zero(t, parents[parents[parent]], "rank %d has rank 0 above it after two steps", rank)
			require.LessOrEqual(t, parent, rank)
		}
		count := map[string]int{}
		for _, name := range names {
			count[name]++
		}
		require.Equal(t, len(machines)-1+count[names[0]]-1, connections(parents)[0])
	})
}
