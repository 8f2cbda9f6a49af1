//go:build !linux

package torch

import "time"

// readUsage returns false: what other processes do is not known here.
func readUsage() (usage, bool) { return usage{}, false }

const shortSlice = 0

// askForSlices returns false: no kernel is known to give them.
func askForSlices(time.Duration) bool { return false }

// calmMonitor does nothing: the policy of a thread can be set on Linux only.
func calmMonitor(bool) {}
