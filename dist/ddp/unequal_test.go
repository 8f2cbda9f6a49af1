package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// A process that has fewer batches than the others ends its loop and closes its group. The others
// fail, and name it, at the first update that it does not make: in the backward pass, or where
// buffers are broadcast before the forward pass. A slower process may fail one update earlier.
func TestAProcessWithFewerBatchesIsNamedByTheOthers(t *testing.T) {
	for name, c := range map[string]struct {
		world, short int // short is the process that has fewer batches
		buffers      bool
	}{
		"the second of two":            {2, 1, false},
		"the first of two":             {2, 0, false},
		"the last of three":            {3, 2, false},
		"the first of three":           {3, 0, false},
		"the first of two, buffers":    {2, 0, true},
		"the second of three, buffers": {3, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			updates := make([]int, c.world)
			errs := together(t, c.world, func(ctx context.Context, g *dist.Group) error {
				model := nn.Sequential{nn.NewLinear(3, 4, nil)}
				if c.buffers {
					model = append(model, nn.NewBatchNorm1d(4, nil))
				}
				m, err := ddp.New(ctx, g, model, ddp.Options{})
				if err != nil {
					return err
				}
				defer m.Close()
				batches := 5
				if g.Rank() == c.short {
					batches = 2
				}
				for i := range batches {
					if err := m.BeforeForward(ctx, true); err != nil {
						return err
					}
					loss := model.Forward(torch.Randn(6, 3)).Square().Mean(torch.DefaultDType)
					if err := m.Backward(ctx, loss.Backward, loss); err != nil {
						return err
					}
					updates[g.Rank()] = i + 1
				}
				return nil // which closes the group
			})
			require.NoError(t, errs[c.short])
			require.Equal(t, 2, updates[c.short])
			for rank, err := range errs {
				if rank == c.short {
					continue
				}
				assert.LessOrEqual(t, updates[rank], 2, "updates of rank %d", rank)
				var e *dist.Error
				require.True(t, errors.As(err, &e), "rank %d: %v", rank, err)
				assert.ErrorIs(t, err, dist.ErrPeerLeft, "rank %d", rank)
				assert.Equal(t, c.short, e.Peer, "rank %d: %v", rank, err)
				assert.ErrorContains(t, err, fmt.Sprintf("rank %d: %s", c.short, dist.ErrPeerLeft), "rank %d", rank)
				t.Logf("rank %d: %v", rank, err)
			}
		})
	}
}

// A process that keeps its group open and waits in another call is named as well: before the second
// forward pass, when buckets are rebuilt, and in later passes.
func TestAProcessThatWaitsElsewhereIsNamedByThoseInAPass(t *testing.T) {
	for batches, call := range map[int]string{1: "BeforeForward(), call", 2: "Backward(), call"} {
		for short := range 2 {
			for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
				model := nn.Sequential{nn.NewLinear(3, 4, nil)}
				m, err := ddp.New(ctx, g, model, ddp.Options{})
				if err != nil {
					return err
				}
				defer m.Close()
				for i := 0; i < batches || g.Rank() != short; i++ {
					if err := m.BeforeForward(ctx, true); err != nil {
						return err
					}
					loss := model.Forward(torch.Randn(6, 3)).Square().Mean(torch.DefaultDType)
					if err := m.Backward(ctx, loss.Backward, loss); err != nil {
						return err
					}
				}
				return g.Barrier(ctx)
			}) {
				require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
				assert.ErrorContains(t, err, call, "rank %d", rank)
				assert.ErrorContains(t, err, "Barrier(), call", "rank %d", rank)
			}
		}
	}
}
