package main

import (
	"fmt"
	"os"
	"syscall"
)

// mountDisk mounts a file system of a given size, visible only to this process.
func mountDisk(dir string, size int64) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		return fmt.Errorf("mounting a small disk: %w", err)
	}
	return nil
}

// ownMounts gives a process its own mount namespace, in which it may mount file systems.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}
