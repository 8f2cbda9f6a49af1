package checkpoint

import (
	"fmt"
	"syscall"
)

func mountSmallDisk(dir string, size int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size))
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
