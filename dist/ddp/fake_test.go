package ddp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/stepcount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func fake(t *testing.T, rank, world int) *dist.Group {
	testenv.RequireTorch(t)
	g, err := dist.Init(t.Context(), dist.Options{Fake: true, Rank: rank, World: world})
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// A fake group returns what real processes that all have the same tensors would get.
func TestAFakeGroupReducesAndGathersAsProcessesThatHaveTheSame(t *testing.T) {
	collectives := func(ctx context.Context, g *dist.Group) (results []torch.Tensor, err error) {
		n := int64(g.World())
		for _, op := range []dist.Op{dist.Sum, dist.Mean, dist.Max, dist.Min, dist.Product} {
			x := of(1, 3).DivScalar(128)
			if err := ddp.AllReduce(ctx, g, op, x); err != nil {
				return nil, err
			}
			part, err := ddp.ReduceScatter(ctx, g, op, of(1, 2*n, 2).DivScalar(128))
			if err != nil {
				return nil, err
			}
			results = append(results, x, part)
		}
		b := of(7, 2)
		if err := ddp.Broadcast(ctx, g, int(n)-1, b); err != nil {
			return nil, err
		}
		gathered, err := ddp.AllGather(ctx, g, of(3, 2, 2))
		if err != nil {
			return nil, err
		}
		p, err := ddp.ProcessGroup(ctx, g)
		if err != nil {
			return nil, err
		}
		ones := make([]int64, n)
		for i := range ones {
			ones[i] = 1
		}
		return append(append(results, b, p.AllToAll(of(5, n, 2), ones, ones)), gathered...), nil
	}
	for _, world := range []int{2, 3} {
		want := make([][]torch.Tensor, world)
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) (err error) {
			want[g.Rank()], err = collectives(ctx, g)
			return err
		}))
		for rank := range world {
			got, err := collectives(t.Context(), fake(t, rank, world))
			require.NoError(t, err)
			require.Len(t, got, len(want[rank]))
			for i := range got {
				require.NoError(t, same("a result", got[i], want[rank][i]), "%d, rank %d of %d", i, rank, world)
			}
		}
	}
}

// oneStep creates a model with several buckets in a group, and returns a function that makes one
// step.
func oneStep(t *testing.T, g *dist.Group) (step func(), gradient torch.Tensor) {
	var m nn.Sequential
	for range 6 {
		m = append(m, nn.NewLinear(64, 64, nil))
	}
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			p.Tensor.Fill_(0.01)
		}
	})
	parallel, err := ddp.New(t.Context(), g, m, ddp.Options{BucketCapMB: 0.02})
	require.NoError(t, err)
	t.Cleanup(parallel.Close)
	x := torch.Ones(4, 64)
	step = func() {
		torch.Scope(func() {
			if err := parallel.BeforeForward(t.Context(), true); err != nil {
				panic(err)
			}
			loss := m.Forward(x).Sum(0)
			if err := parallel.Backward(t.Context(), loss.Backward, loss); err != nil {
				panic(err)
			}
		})
	}
	step() // the reducer rebuilds its buckets after the first step
	return step, nn.Params(m)[0].Tensor.Grad()
}

// What a step of data-parallel training costs in calls of libtorch and in Go allocations does not
// grow with the number of processes: with 1,024 it is the same as with 8, within 5 %.
func TestAStepOfOneOf1024ProcessesCostsTheHostWhatOneOf8Does(t *testing.T) {
	testenv.RequireTorch(t)
	type costs struct {
		counts      stepcount.Counts
		allocations float64
		gradient    torch.Tensor
	}
	measured := map[int]costs{}
	for _, world := range []int{8, 1024} {
		for _, rank := range []int{0, world - 1} {
			step, gradient := oneStep(t, fake(t, rank, world))
			c := costs{gradient: gradient.Clone(), counts: stepcount.Of(t, step)}
			step()
			c.allocations = math.Inf(1)
			for range 5 { // other goroutines sometimes allocate, too
				c.allocations = min(c.allocations, testing.AllocsPerRun(5, step))
			}
			if rank == 0 {
				measured[world] = c
				continue
			}
			assert.InDelta(t, measured[world].counts.Operators, c.counts.Operators, 0.05*float64(c.counts.Operators),
				"ranks 0 and %d of %d", rank, world)
			measured[world] = c
		}
	}
	few, many := measured[8], measured[1024]
	t.Logf("8 processes: %d operators, %d tensors, %v allocations; 1,024: %d, %d, %v", few.counts.Operators,
		few.counts.Tensors, few.allocations, many.counts.Operators, many.counts.Tensors, many.allocations)
	require.Positive(t, few.counts.Operators)
	assert.InDelta(t, few.counts.Operators, many.counts.Operators, 0.05*float64(few.counts.Operators))
	assert.InDelta(t, few.counts.Tensors, many.counts.Tensors, 0.05*float64(few.counts.Tensors))
	assert.InDelta(t, float64(few.counts.Bytes), float64(many.counts.Bytes), 0.05*float64(few.counts.Bytes))
	assert.InDelta(t, few.allocations, many.allocations, 0.05*few.allocations)
	// the gradient is a mean, and all processes have the same one
	require.NoError(t, same("the gradient", many.gradient, few.gradient))
}
