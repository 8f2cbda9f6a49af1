package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// started is a Work whose result is compared with that of the blocking call.
type started struct {
	name string
	wait func(ctx context.Context) ([]torch.Tensor, error)
	want []torch.Tensor
}

func many(w *ddp.Work[[]torch.Tensor], err error) func(ctx context.Context) ([]torch.Tensor, error) {
	if err != nil {
		return func(context.Context) ([]torch.Tensor, error) { return nil, err }
	}
	return w.Wait
}

func one(w *ddp.Work[torch.Tensor], err error) func(ctx context.Context) ([]torch.Tensor, error) {
	return func(ctx context.Context) ([]torch.Tensor, error) {
		if err != nil {
			return nil, err
		}
		t, err := w.Wait(ctx)
		return []torch.Tensor{t}, err
	}
}

// startAll starts one of each collective, and returns them with the results of the blocking ones.
func startAll(ctx context.Context, g *dist.Group) (works []started, err error) {
	r, n := g.Rank(), int64(g.World())
	sums := []torch.Tensor{of(r, 2, 3), of(r, 4).ToDType(torch.Float64)}
	inRoot := []torch.Tensor{of(r, 3, 2).Transpose(0, 1).Keep(), of(r, 1).Keep()}
	root := g.World() - 1
	parts := func() (parts []torch.Tensor) {
		for to := range n {
			parts = append(parts, of(r, to+1, 2))
		}
		return parts
	}
	for _, op := range []dist.Op{dist.Sum, dist.Mean, dist.Max} {
		want := []torch.Tensor{sums[0].Clone(), sums[1].Clone()}
		if err := ddp.AllReduce(ctx, g, op, want...); err != nil {
			return nil, err
		}
		mine := []torch.Tensor{sums[0].Clone().Keep(), sums[1].Clone().Keep()}
		works = append(works, started{"AllReduce " + op.String(), many(ddp.StartAllReduce(ctx, g, op, mine...)), want})

		part, err := ddp.ReduceScatter(ctx, g, op, of(r, 2*n, 3))
		if err != nil {
			return nil, err
		}
		works = append(works, started{"ReduceScatter " + op.String(),
			one(ddp.StartReduceScatter(ctx, g, op, of(r, 2*n, 3))), []torch.Tensor{part}})
	}
	want := []torch.Tensor{inRoot[0].Clone(), inRoot[1].Clone()}
	if err := ddp.Broadcast(ctx, g, root, want...); err != nil {
		return nil, err
	}
	works = append(works, started{"Broadcast", many(ddp.StartBroadcast(ctx, g, root, inRoot...)), want})
	all, err := ddp.AllGather(ctx, g, of(r, int64(r), 2))
	if err != nil {
		return nil, err
	}
	works = append(works, started{"AllGather", many(ddp.StartAllGather(ctx, g, of(r, int64(r), 2).Keep())), all})
	received, err := ddp.AllToAll(ctx, g, parts())
	if err != nil {
		return nil, err
	}
	return append(works, started{"AllToAll", many(ddp.StartAllToAll(ctx, g, parts())), received}), nil
}

func TestWorksThatAreUnderWayTogetherHaveTheResultsOfTheCalls(t *testing.T) {
	for world := 1; world <= 3; world++ {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) (err error) {
			var works []started
			torch.Scope(func() { // a Work outlives the scope in which it was started
				works, err = startAll(ctx, g)
				for _, w := range works {
					for _, t := range w.want {
						t.Keep()
					}
				}
			})
			if err != nil {
				return err
			}
			for i := range works { // in another order per process: steps 1, 2, 4 are coprime to their number
				w := works[(i*[]int{1, 2, 4}[g.Rank()]+g.Rank())%len(works)]
				for range 2 { // a second Wait returns the same
					got, err := w.wait(ctx)
					if err != nil {
						return fmt.Errorf("%s: %w", w.name, err)
					}
					for i := range w.want {
						if err := same(w.name, got[i], w.want[i]); err != nil {
							return err
						}
					}
				}
			}
			return nil
		}))
	}
}

func TestAWaitThatIsTooLongLeavesTheWorkAndItsEndHasAReason(t *testing.T) {
	errs := together(t, 2, func(ctx context.Context, g *dist.Group) error {
		if err := ddp.AllReduce(ctx, g, dist.Sum, of(0, 1)); err != nil { // both have joined
			return err
		}
		x := of(g.Rank(), 3)
		if g.Rank() == 1 { // rank 1 announces a sum, but does not run it
			if err := g.Agree(ctx, "AllReduce(sum of float32[3])"); err != nil {
				return err
			}
			waited := make([]byte, 1)
			return errors.Join(g.Broadcast(ctx, waited, 0), g.Fail("the sum", errors.New("rank 1 has given up")))
		}
		w, err := ddp.StartAllReduce(ctx, g, dist.Sum, x)
		if err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_, err = w.Wait(soon)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NoError(t, w.Err())
		select {
		case <-w.Done():
			assert.Fail(t, "the work is done although rank 1 has not started it")
		default:
		}
		if err := g.Broadcast(ctx, make([]byte, 1), 0); err != nil {
			return err
		}
		_, err = w.Wait(ctx)
		<-w.Done()
		assert.Equal(t, err, w.Err())
		return err
	})
	var e *dist.Error
	require.ErrorAs(t, errs[0], &e)
	assert.Equal(t, 1, e.Peer)
	assert.ErrorContains(t, errs[0], "rank 1 has given up")
}

func TestWrongArgumentsOfStartsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		_, reduce := ddp.StartAllReduce(ctx, g, dist.Mean, torch.From([]int64{1}))
		_, broadcast := ddp.StartBroadcast(ctx, g, 2, of(0, 1))
		_, scatter := ddp.StartReduceScatter(ctx, g, dist.Sum, of(0, 3))
		_, parts := ddp.StartAllToAll(ctx, g, []torch.Tensor{of(0, 1)})
		assert.ErrorContains(t, reduce, "no exact result")
		assert.ErrorContains(t, broadcast, "there are 2 processes")
		assert.ErrorContains(t, scatter, "share out evenly")
		assert.ErrorContains(t, parts, "want one for each")
		_, err := ddp.StartAllGather(ctx, g, torch.Ones(1, int64(g.Rank()+1)))
		assert.ErrorContains(t, err, "first dimension")
		return g.Barrier(ctx)
	}))
}

func TestAStartedSumOfAProcessGroup(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		p, err := ddp.ProcessGroup(ctx, g)
		if err != nil {
			return err
		}
		assert.ErrorContains(t, torch.Try(func() { p.StartAllReduce(torch.Ones(3), "mean", 0) }), `no reduction "mean"`)
		x := of(g.Rank(), 5)
		if g.Rank() == 0 {
			w := p.StartAllReduce(x, "sum", 7)
			assert.False(t, w.WaitFor(10*time.Millisecond), "the other process has not started")
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			w.Wait()
			w.Wait() // a second Wait does nothing
		} else {
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			for w := p.StartAllReduce(x, "sum", 7); !w.WaitFor(time.Millisecond); {
			}
		}
		return same("the sum", x, sum(2, 5))
	}))
}

func TestStartedSumsOfOtherLabelsTakeNothingOfEachOther(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		p, err := ddp.ProcessGroup(ctx, g)
		if err != nil {
			return err
		}
		w := p.StartAllReduce(torch.Ones(3), "sum", uint32(g.Rank()))
		assert.False(t, w.WaitFor(20*time.Millisecond))
		p.Abort("that is enough")
		return torch.Try(w.Wait)
	}) {
		require.ErrorContains(t, err, "that is enough", "rank %d", rank)
	}
}

// The sum of an empty tensor sends no messages that would prove that all processes make it.
func TestASumOfNothingIsComparedToo(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(int64(g.Rank())))
	}) {
		require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
	}
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(0))
	}))
}
