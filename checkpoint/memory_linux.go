package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropFromMemory asks the system to drop its cached copy of a flushed file, so that reading the
// file back tests the disk.
func dropFromMemory(f *os.File) {
	// only advice: if it is ignored, the test is merely weaker
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
