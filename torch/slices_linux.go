package torch

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A thread that sleeps until the others are done needs a CPU soon after it wakes up, but only
// briefly. The kernel assigns CPUs in time slices. A thread that requests shorter slices is
// scheduled sooner when it competes with a process that computes without a pause, and gets the same
// share of the CPU overall. Since version 6.12, Linux accepts a requested slice, as sched_runtime
// of a thread of the normal policy; older kernels ignore it.

// shortSlice is the shortest slice that the kernel grants.
const shortSlice = 100 * time.Microsecond

// requestSlices requests slices of the given length for all threads of the process, and thus for
// those that they start. Zero requests the kernel's default. It reports whether the calling thread
// got them.
func requestSlices(slice time.Duration) bool {
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
		if err != nil || attr.Policy != unix.SCHED_NORMAL { // it has ended, or has another policy
			continue
		}
		attr.Runtime = uint64(slice)
		_ = unix.SchedSetAttr(id, attr, 0) // best effort
	}
	attr, err := unix.SchedGetAttr(0, 0)
	return err == nil && attr.Policy == unix.SCHED_NORMAL && attr.Runtime == uint64(slice)
}
