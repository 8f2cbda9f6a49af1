package torch

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Go's scheduler has a monitor thread (sysmon) that checks every 20 microseconds to 10 milliseconds
// whether a thread has been in C for long. During training one nearly always is, so the monitor
// runs often, and each time the kernel preempts a thread that computes a part of an operator, for
// which all other threads then wait.

// monitor is the id of the monitor thread while its policy is SCHED_BATCH, otherwise 0.
var monitor int

// setMonitorPolicy gives the monitor thread the policy SCHED_BATCH if batch is true. It then no
// longer preempts a computing thread when it wakes up, but runs at the kernel's next tick at the
// latest. Otherwise it gives the monitor the normal policy again. Threads that the monitor has
// started meanwhile have inherited its policy and get the normal one back. A thread with any other
// policy keeps it. The lock of waiting must be held.
func setMonitorPolicy(batch bool) {
	switch {
	case batch && monitor == 0:
		// Threads are listed in the order in which they were started: first the main thread, then
		// the monitor, which Go's runtime starts before it runs the program.
		threads := threadsOfProcess()
		if len(threads) > 1 && changePolicy(threads[1], unix.SCHED_NORMAL, unix.SCHED_BATCH) {
			monitor = threads[1]
		}
		return
	case monitor == 0:
		return
	case !batch: // first, so that it starts no more threads with its policy
		changePolicy(monitor, unix.SCHED_BATCH, unix.SCHED_NORMAL)
		monitor = 0
	}
	for _, thread := range threadsOfProcess() {
		if thread != monitor {
			changePolicy(thread, unix.SCHED_BATCH, unix.SCHED_NORMAL)
		}
	}
}

// threadsOfProcess returns the ids of the process's threads, or nil if they cannot be read.
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

// changePolicy changes the policy of a thread if it is from, and reports whether it did.
func changePolicy(thread int, from, to uint32) bool {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attr.Policy != from {
		return false
	}
	attr.Policy = to
	return unix.SchedSetAttr(thread, attr, 0) == nil
}
