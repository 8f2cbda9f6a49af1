//go:build linux

package torch_test

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// TestEveryThreadKeepsLargeBlocks: glibc has room for a block of 64 MB or more only in its main
// arena; a thread with an arena of its own would fault in all pages of such a block again.
func TestEveryThreadKeepsLargeBlocks(t *testing.T) {
	for _, name := range []string{"MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "GOTRAINER_MALLOC"} {
		if os.Getenv(name) != "" {
			t.Skip("malloc is configured by ", name)
		}
	}
	testenv.RequireTorch(t)
	const bytes = 96 << 20
	faults := func() int64 {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Minflt
	}
	use := func() {
		x := torch.Zeros(bytes / 4)
		defer x.Free()
		x.Fill_(1)
	}
	var threads sync.WaitGroup
	var one sync.Mutex
	for range 8 { // all alive at the same time, so that they are different threads
		threads.Go(func() {
			runtime.LockOSThread()
			one.Lock()
			defer one.Unlock()
			const few = bytes / 4096 / 4
			fewest := int64(bytes)
			// At first, small pieces that are cached by thread keep blocks apart.
			for n := 0; n < 30 && fewest > few; n++ {
				before := faults()
				use()
				fewest = min(fewest, faults()-before)
			}
			assert.LessOrEqual(t, fewest, int64(few), "page faults of a block that was used before")
		})
	}
	threads.Wait()
}
