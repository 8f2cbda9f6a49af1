//go:build !linux

package torch

import "time"

// readUsage returns false: the load of other processes is not measured on this system.
func readUsage() (usage, bool) { return usage{}, false }

const shortSlice = 0

// requestSlices returns false: this system is not known to grant them.
func requestSlices(time.Duration) bool { return false }

// setMonitorPolicy does nothing: the policy of a single thread can be set only on Linux.
func setMonitorPolicy(bool) {}
