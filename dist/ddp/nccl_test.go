package ddp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// pretendGPUs replaces NCCL by a backend that records its calls.
func pretendGPUs(t *testing.T) {
	testenv.RequireTorch(t)
	require.NoError(t, torch.Load())
	cgotorch.PretendGraphs(true)
	ddp.SetGPUs(t, 2)
	t.Cleanup(func() { cgotorch.PretendGraphs(false) })
}

// Without an abort, the communicator would wait for a process that is gone until NCCL's timeout,
// ten minutes.
func TestACommunicatorIsAbortedWhenAProcessIsGone(t *testing.T) {
	pretendGPUs(t)
	gone := errors.New("rank 1 is gone")
	errs := together(t, 2, func(ctx context.Context, g *dist.Group) error {
		if err := ddp.AllReduce(ctx, g, dist.Sum, of(g.Rank(), 2)); err != nil {
			return err
		}
		if g.Rank() == 1 {
			return g.Fail("a step", gone)
		}
		<-g.Done()
		return g.Err()
	})
	assert.ErrorContains(t, errs[0], gone.Error())
	assert.Eventually(t, func() bool { // of both ranks: they share this process
		_, aborted, _ := cgotorch.PretendedNCCL()
		return aborted == 2
	}, 10*time.Second, 10*time.Millisecond)
	_, _, down := cgotorch.PretendedNCCL()
	assert.Zero(t, down)
}

func TestACommunicatorIsShutDownWhenItsGroupIsClosed(t *testing.T) {
	pretendGPUs(t)
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		if err := ddp.AllReduce(ctx, g, dist.Sum, of(g.Rank(), 2)); err != nil {
			return err
		}
		return g.Barrier(ctx)
	}))
	assert.Eventually(t, func() bool {
		_, aborted, down := cgotorch.PretendedNCCL()
		return aborted+down >= 2 && down > 0 // a rank whose group ended because the other one left aborts instead
	}, 10*time.Second, 10*time.Millisecond)
}
