//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// columns is how wide a terminal says it is, which may be 0; false: f is none.
func columns(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
