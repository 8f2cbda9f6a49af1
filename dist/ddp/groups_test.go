package ddp_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Groups of one process that are used at the same time do not interfere. In libtorch's flight
// recorder they would: see no_flight_recorder in cgotorch/src/group.cc. That race is too rare for
// this test to hit reliably.
func TestManyGroupsAtOnceInOneProcess(t *testing.T) {
	testenv.RequireTorch(t)
	var groups sync.WaitGroup
	for range 4 {
		groups.Go(func() {
			for range 2 {
				all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
					x := torch.Full(float64(g.Rank()+1), 100)
					return errors.Join(ddp.Broadcast(ctx, g, 0, x), ddp.AllReduce(ctx, g, dist.Sum, x),
						same("the sum of rank 0's", x, torch.Full(2.0, 100)))
				}))
			}
		})
	}
	groups.Wait()
}

// No threads of gloo remain after a group has ended, even if the model was not closed.
func TestTheThreadsOfAGroupEndWithIt(t *testing.T) {
	testenv.RequireTorch(t)
	if runtime.GOOS != "linux" {
		t.Skip("threads are counted in /proc")
	}
	threads := func() (n int) {
		names, err := filepath.Glob("/proc/self/task/*/comm")
		require.NoError(t, err)
		for _, name := range names {
			if comm, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(comm), "pt_gloo") {
				n++
			}
		}
		return n
	}
	before := threads()
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m, err := ddp.New(ctx, g, nn.NewLinear(3, 2, nil), ddp.Options{})
		if err == nil {
			assert.NotZero(t, threads(), "gloo's threads have other names: this test checks nothing")
			err = m.BeforeForward(ctx, true)
		}
		return err
	}))
	assert.Eventually(t, func() bool { return threads() <= before }, 10*time.Second, 10*time.Millisecond)
}
