package torch

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// jiffy is the unit of times in /proc/stat: USER_HZ is 100 on every Linux that Go supports.
const jiffy = 10 * time.Millisecond

// readUsage returns false if the kernel does not provide the numbers.
func readUsage() (usage, bool) {
	var set unix.CPUSet
	var process, thread unix.Rusage
	if unix.SchedGetaffinity(0, &set) != nil || unix.Getrusage(unix.RUSAGE_SELF, &process) != nil ||
		unix.Getrusage(unix.RUSAGE_THREAD, &thread) != nil {
		return usage{}, false
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return usage{}, false
	}
	cpus, busy := busyCPUs(stat, set.IsSet)
	if cpus == 0 {
		return usage{}, false
	}
	return usage{cpus: cpus, at: time.Since(loading), busy: busy, own: cpuTime(process), thread: unix.Gettid(),
		ofThread: cpuTime(thread), preempted: int64(process.Nivcsw)}, true
}

func cpuTime(r unix.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// busyCPUs counts the wanted CPUs in /proc/stat and adds up how long they have been busy since
// boot.
func busyCPUs(stat []byte, wanted func(cpu int) bool) (cpus int, busy time.Duration) {
	for line := range bytes.Lines(stat) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		fields := bytes.Fields(rest)
		if !ok || len(fields) < 9 {
			continue
		}
		cpu, err := strconv.Atoi(string(fields[0]))
		if err != nil || rest[0] == ' ' || !wanted(cpu) { // the first line is the sum
			continue
		}
		cpus++
		for k, field := range fields[1:9] { // user nice system idle iowait irq softirq steal
			if k == 3 || k == 4 {
				continue
			}
			n, err := strconv.ParseInt(string(field), 10, 64)
			if err != nil {
				return 0, 0
			}
			busy += time.Duration(n) * jiffy
		}
	}
	return cpus, busy
}
