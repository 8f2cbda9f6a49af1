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

// Operations have begun when the difference is found. Even so, no process may hang, crash (as gloo
// does when more data arrive than it expects), or return a result.
func TestCallsThatDifferAreUnderWayAndEndOnAll(t *testing.T) {
	wait := func(ctx context.Context, w *ddp.Work[[]torch.Tensor], err error) error {
		if err != nil {
			return err
		}
		_, err = w.Wait(ctx)
		return err
	}
	for name, call := range map[string]func(ctx context.Context, g *dist.Group, other bool) error{
		"longer": func(ctx context.Context, g *dist.Group, other bool) error {
			return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(map[bool]int64{false: 3, true: 4}[other]))
		},
		"much longer": func(ctx context.Context, g *dist.Group, other bool) error {
			return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(map[bool]int64{false: 3, true: 3 << 20}[other]))
		},
		"much shorter": func(ctx context.Context, g *dist.Group, other bool) error {
			return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(map[bool]int64{false: 3 << 20, true: 3}[other]))
		},
		"as long, of another shape": func(ctx context.Context, g *dist.Group, other bool) error {
			x := torch.Ones(2, 3)
			if other {
				x = torch.Ones(3, 2)
			}
			return ddp.AllReduce(ctx, g, dist.Sum, x)
		},
		"from another root": func(ctx context.Context, g *dist.Group, other bool) error {
			return ddp.Broadcast(ctx, g, map[bool]int{false: 0, true: 1}[other], torch.Ones(5))
		},
		"started, the second of three": func(ctx context.Context, g *dist.Group, other bool) error {
			x, y, z := torch.Ones(6).Keep(), torch.Ones(map[bool]int64{false: 8, true: 900}[other]).Keep(), torch.Ones(7).Keep()
			u, errU := ddp.StartAllReduce(ctx, g, dist.Sum, x)
			v, errV := ddp.StartAllReduce(ctx, g, dist.Sum, y)
			w, errW := ddp.StartAllReduce(ctx, g, dist.Sum, z)
			err := wait(ctx, v, errV)
			assert.Error(t, wait(ctx, w, errW), "a call after one that differs")
			_ = wait(ctx, u, errU) // the first call may have completed, or was aborted
			return err
		},
		"in another order": func(ctx context.Context, g *dist.Group, other bool) error {
			sizes := []int64{5, 6}
			if other {
				sizes = []int64{6, 5}
			}
			return errors.Join(ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(sizes[0])),
				ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(sizes[1])))
		},
	} {
		for world := 2; world <= 3; world++ {
			for odd := range world { // the rank whose call differs
				t.Run(fmt.Sprintf("%s, rank %d of %d", name, odd, world), func(t *testing.T) {
					for rank, err := range together(t, world, func(ctx context.Context, g *dist.Group) error {
						if err := ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(1)); err != nil { // all have joined
							return err
						}
						return call(ctx, g, g.Rank() == odd)
					}) {
						require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
					}
				})
			}
		}
	}
}

// Nobody compares the calls of a torch.ProcessGroup: calls that differ wait until the group ends.
func TestCallsOfAProcessGroupThatDifferTakeNothingOfEachOther(t *testing.T) {
	reason := errors.New("rank 1 has waited enough")
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		p, err := ddp.ProcessGroup(ctx, g)
		if err != nil {
			return err
		}
		if g.Rank() == 1 {
			time.AfterFunc(300*time.Millisecond, func() { _ = g.Fail("the sum", reason) })
		}
		x := torch.Ones(int64(3 + 40*g.Rank()))
		if err := torch.Try(func() { p.AllReduce(x) }); err != nil {
			return g.Fail("AllReduce", err)
		}
		return errors.New("a sum of 3 numbers and 43 has an outcome")
	}) {
		require.ErrorContains(t, err, reason.Error(), "rank %d", rank)
	}
}
