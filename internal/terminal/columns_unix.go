//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// columns returns the width that a terminal reports, which may be 0; ok is false if f is not a
// terminal.
func columns(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
