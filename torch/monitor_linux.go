package torch

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Go's scheduler has a thread of its own, the monitor (sysmon), that looks every 20 microseconds
// to 10 milliseconds whether a thread has been in C for long. It is nearly always in libtorch when
// one trains, so the monitor looks often, and each time the kernel takes a CPU from a thread that
// shares an operator, for which all others wait.

// monitor is the monitor's thread while it waits for its turn; 0: it does not.
var monitor int

// calmMonitor has the monitor wait for its turn, as a batch process does, instead of taking a CPU
// from a thread that computes: it then looks at the kernel's next tick at the latest. Threads that
// the monitor has started meanwhile have its policy, and get the usual one; so does the monitor
// unless calm. A process that has another policy keeps it. The lock of waiting is held.
func calmMonitor(calm bool) {
	switch {
	case calm && monitor == 0:
		// The order is that in which they were started: the first thread of the process, then the
		// monitor, which Go's runtime starts before it runs the program.
		threads := threadsOfProcess()
		if len(threads) > 1 && changePolicy(threads[1], unix.SCHED_NORMAL, unix.SCHED_BATCH) {
			monitor = threads[1]
		}
		return
	case monitor == 0:
		return
	case !calm: // first, so that no thread it starts from here on has its policy
		changePolicy(monitor, unix.SCHED_BATCH, unix.SCHED_NORMAL)
		monitor = 0
	}
	for _, thread := range threadsOfProcess() {
		if thread != monitor {
			changePolicy(thread, unix.SCHED_BATCH, unix.SCHED_NORMAL)
		}
	}
}

// threadsOfProcess are the ids of the threads of this process; none if it may not be known.
func threadsOfProcess() (ids []int) {
	task, err := os.Open("/proc/self/task")
	if err != nil {
		return nil
	}
	defer func() { _ = task.Close() }()
	names, _ := task.Readdirnames(0)
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// changePolicy gives a thread that has one policy another one, and reports whether it did.
func changePolicy(thread int, from, to uint32) bool {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attr.Policy != from {
		return false
	}
	attr.Policy = to
	return unix.SchedSetAttr(thread, attr, 0) == nil
}
