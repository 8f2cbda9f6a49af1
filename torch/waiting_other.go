//go:build !linux

package torch

// readUsage returns false: what other processes do is not known here.
func readUsage() (usage, bool) { return usage{}, false }
