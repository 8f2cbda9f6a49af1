//go:build linux || darwin

package checkpoint

import (
	"errors"
	"syscall"
)

// processLives tells whether this machine has a process of that number.
func processLives(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
