//go:build !(linux && amd64)

package main

import (
	"errors"
	"syscall"
)

// traced is only implemented for Linux on x86-64, whose registers it changes.
func traced(*process, string, func(systemCall) verdict) (syscall.WaitStatus, error) {
	return 0, errors.New("system calls are traced on Linux on x86-64 only; choose other lines with -only")
}
