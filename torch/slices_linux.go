package torch

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A thread that sleeps until the others have come needs a CPU soon after it is woken, and only for
// a moment. The kernel gives CPUs out by slices: whoever asks for shorter ones is sooner let in
// before a process that computes without a pause, for the same share of the CPU in all. Linux takes
// the wish for a slice since 6.12, as sched_runtime of an ordinary thread; older kernels ignore it.

// shortSlice is the shortest slice that the kernel gives.
const shortSlice = 100 * time.Microsecond

// askForSlices asks for slices of this length for the threads of the process, and thereby for all
// that they start; zero asks for the kernel's own. It reports whether the calling thread has them.
func askForSlices(slice time.Duration) bool {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil || attr.Policy != unix.SCHED_NORMAL { // it has ended, or has a policy of its own
			continue
		}
		attr.Runtime = uint64(slice)
		_ = unix.SchedSetAttr(id, attr, 0) // a wish
	}
	attr, err := unix.SchedGetAttr(0, 0)
	return err == nil && attr.Policy == unix.SCHED_NORMAL && attr.Runtime == uint64(slice)
}
