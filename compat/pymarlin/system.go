package pymarlin

import (
	"fmt"
	"os"
	"strings"
)

// systemStats read how busy the machine is from /proc. Where there is none, nothing is added.
type systemStats struct {
	busy, total float64 // processor time at the last reading
}

// update adds the numbers of PyMarlin's update_system_stats. The use of the processor is that since
// the last reading; PyMarlin stops for a second to measure it.
func (y *systemStats) update(s *Stats) {
	all, available := memory()
	if all > 0 {
		s.Update("system/RAM/memory_used_pct", 100*(all-available)/all, true)
		var pages, resident float64
		if text, err := os.ReadFile("/proc/self/statm"); err == nil {
			if _, err := fmt.Sscan(string(text), &pages, &resident); err == nil {
				s.Update("system/RAM/memory_elr_pct", 100*resident*float64(os.Getpagesize())/all, true)
			}
		}
	}
	if busy, total, ok := processor(); ok {
		if total > y.total {
			s.Update("system/CPU/pct", 100*(busy-y.busy)/(total-y.total), true)
		}
		y.busy, y.total = busy, total
	}
}

// memory is what the machine has and what is free for new programs, in bytes.
func memory() (all, available float64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var kilobytes float64
		if _, err := fmt.Sscan(line, &name, &kilobytes); err != nil {
			continue
		}
		switch name {
		case "MemTotal:":
			all = kilobytes * 1024
		case "MemAvailable:":
			available = kilobytes * 1024
		}
	}
	return all, available
}

// processor is the time that all processors have been busy, and all time.
func processor() (busy, total float64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	var name string
	var t [8]float64 // user, nice, system, idle, iowait, irq, softirq, steal
	if _, err := fmt.Sscan(string(text), &name, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]); err != nil ||
		name != "cpu" {
		return 0, 0, false
	}
	for _, v := range t {
		total += v
	}
	return total - t[3] - t[4], total, true
}
