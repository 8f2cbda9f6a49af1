package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropFromMemory asks the system to forget its copy of a flushed file, so that reading it back
// tests the disk.
func dropFromMemory(f *os.File) {
	// advice: where it is not taken the test is weaker, nothing else
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
