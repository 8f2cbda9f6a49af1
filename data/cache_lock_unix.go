//go:build unix

package data

import (
	"os"
	"syscall"
)

// lockFile locks the file for this process until it is closed. It does not wait for other
// processes.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
