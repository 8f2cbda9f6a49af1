//go:build !linux

package main

import (
	"fmt"
	"syscall"
)

// mountDisk fails like on a system that does not permit mounting.
func mountDisk(string, int64) error { return fmt.Errorf("mounting a small disk: %w", syscall.EPERM) }

func ownMounts() *syscall.SysProcAttr { return new(syscall.SysProcAttr) }
