package dist_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
)

// work simulates a collective operation: a call completes when all processes have begun it.
type work struct {
	world int
	mu    sync.Mutex
	begun map[int]int
	whole map[int]chan struct{}
}

func newWork(world int) *work {
	return &work{world: world, begun: map[int]int{}, whole: map[int]chan struct{}{}}
}

// begin begins this process's part of a call; the channel is closed when all have begun it.
func (w *work) begin(call int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.whole[call] == nil {
		w.whole[call] = make(chan struct{})
	}
	if w.begun[call]++; w.begun[call] == w.world {
		close(w.whole[call])
	}
	return w.whole[call]
}

// Processes announce their quiet calls or do not, at random, between ordinary calls.
func TestQuietCallsAmongOthers(t *testing.T) {
	for world := 2; world <= 4; world++ {
		w := newWork(world)
		all(t, together(t, world, nil, func(ctx context.Context, g *dist.Group) error {
			own := rand.New(rand.NewPCG(1, uint64(g.Rank())))
			shared := rand.New(rand.NewPCG(2, 0))
			for i := range 300 {
				name := fmt.Sprintf("Sum(%d)", i)
				if shared.IntN(5) == 0 {
					if err := g.Agree(ctx, name); err != nil {
						return err
					}
					continue
				}
				call, err := g.StartQuiet(ctx, name, nil)
				if err != nil {
					return err
				}
				whole := w.begin(i)
				switch own.IntN(4) {
				case 0:
					call.Tell()
				case 1:
					<-whole
					call.Tell() // late
				}
				<-whole
				call.Done()
			}
			return g.Barrier(ctx)
		}))
	}
}

// One process announces no quiet calls, so rank 0 never sees them complete.
func TestRankZeroKeepsNoQuietCallsThatAreOver(t *testing.T) {
	const world, calls = 3, 500
	w := newWork(world)
	all(t, together(t, world, nil, func(ctx context.Context, g *dist.Group) error {
		for i := range calls {
			call, err := g.StartQuiet(ctx, "Sum(3)", nil)
			if err != nil {
				return err
			}
			if g.Rank() < world-1 {
				call.Tell()
			}
			<-w.begin(i)
			call.Done()
		}
		if g.Rank() == 0 {
			assert.LessOrEqual(t, g.CallsUnderWay(), 2)
		}
		return g.Barrier(ctx)
	}))
}

func TestOneMayLeaveAfterAQuietCallThatOthersTellOf(t *testing.T) {
	for leaver := 1; leaver < 3; leaver++ {
		w, others := newWork(3), newWork(2)
		all(t, together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
			call, err := g.StartQuiet(ctx, "Sum(3)", nil)
			if err != nil {
				return err
			}
			<-w.begin(0)
			if g.Rank() == leaver {
				call.Done()
				return g.Close()
			}
			<-g.Left()
			call.Tell()
			call.Done()
			<-others.begin(0) // rank 0 stays until the other process has called Tell
			return g.Err()
		}))
	}
}

func TestQuietCallsThatDifferEndWhenTheyAreTold(t *testing.T) {
	for what, next := range map[string]func(ctx context.Context, g *dist.Group, call *dist.Quiet) error{
		"by themselves": func(_ context.Context, g *dist.Group, call *dist.Quiet) error {
			call.Tell()
			<-g.Done()
			return g.Err()
		},
		"by the next call, before which they come": func(ctx context.Context, g *dist.Group, _ *dist.Quiet) error {
			return g.Barrier(ctx)
		},
	} {
		t.Run(what, func(t *testing.T) {
			for rank, err := range together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
				call, err := g.StartQuiet(ctx, fmt.Sprintf("Sum(%d)", 3+g.Rank()/2), nil)
				if err != nil {
					return err
				}
				return next(ctx, g, call)
			}) {
				require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
				assert.ErrorContains(t, err, map[bool]string{false: "Sum(4), call 2", true: "Sum(3), call 2"}[rank == 2],
					"rank %d", rank)
			}
		})
	}
}

func TestAQuietCallThatWasToldHasItsLimits(t *testing.T) {
	quiet := func(ctx context.Context, g *dist.Group) error {
		call, err := g.StartQuiet(ctx, "Sum(3)", nil)
		if err != nil {
			return err
		}
		call.Tell()
		<-g.Done()
		return g.Err()
	}
	for rank, err := range together(t, 3, func(o *dist.Options) { o.Timeout = 200 * time.Millisecond },
		func(ctx context.Context, g *dist.Group) error {
			if g.Rank() == 1 {
				<-g.Done()
				return g.Err()
			}
			return quiet(ctx, g)
		}) {
		var e *dist.Error
		require.ErrorAs(t, err, &e, "rank %d", rank)
		require.ErrorIs(t, err, dist.ErrTimeout, "rank %d", rank)
		assert.Equal(t, 1, e.Peer, "rank %d: %v", rank, err)
	}
	for rank, err := range together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		if g.Rank() == 1 {
			<-g.Done()
			return g.Err()
		}
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(10*time.Millisecond, func() { cancel(context.Canceled) })
		return quiet(ctx, g)
	}) {
		require.ErrorContains(t, err, "context canceled", "rank %d", rank)
	}
}

func TestAQuietCallOfOneProcess(t *testing.T) {
	g, err := dist.Init(t.Context(), dist.Options{World: 1})
	require.NoError(t, err)
	ran := false
	call, err := g.StartQuiet(t.Context(), "Sum(3)", func() { ran = true })
	require.NoError(t, err)
	call.Tell()
	call.Done()
	assert.True(t, ran)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.StartQuiet(ctx, "Sum(3)", nil)
	require.ErrorIs(t, err, context.Canceled)
}
