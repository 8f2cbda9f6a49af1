//go:build linux || darwin

package checkpoint

import (
	"errors"
	"syscall"
)

// processLives reports whether this machine has a process with that number.
func processLives(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
