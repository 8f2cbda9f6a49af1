package torch

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestBusyCPUs(t *testing.T) {
	const stat = "cpu  100 0 100 100 100 0 0 0 0 0\n" +
		"cpu0 10 20 30 4000 5000 6 7 8 900 1000\n" + // guest and guest_nice are already included in user and nice
		"cpu1 1 0 0 0 0 0 0 0 0 0\n" +
		"cpu12 0 0 100 0 0 0 0 0 0 0\n" +
		"intr 1 2 3\n"
	for _, c := range []struct {
		wanted func(int) bool
		cpus   int
		busy   time.Duration
	}{
		{func(int) bool { return true }, 3, (81 + 1 + 100) * jiffy},
		{func(cpu int) bool { return cpu == 12 }, 1, time.Second},
		{func(int) bool { return false }, 0, 0},
	} {
		cpus, busy := busyCPUs([]byte(stat), c.wanted)
		assert.Equal(t, c.cpus, cpus)
		assert.Equal(t, c.busy, busy)
	}
	for _, bad := range []string{"", "cpu", "cpu0", "cpu0 a b c d e f g h", "cpux 1 2 3 4 5 6 7 8"} {
		_, busy := busyCPUs([]byte(bad), func(int) bool { return true })
		assert.Zero(t, busy, bad)
	}
}

func TestReadUsageKnowsTheCPUsOfTheProcess(t *testing.T) {
	runtime.LockOSThread() // otherwise the goroutine might move to another thread before the comparison
	defer runtime.UnlockOSThread()
	u, ok := readUsage()
	require.True(t, ok)
	assert.Equal(t, runtime.NumCPU(), u.cpus)
	assert.Positive(t, u.own)
	assert.Equal(t, unix.Gettid(), u.thread)
}
