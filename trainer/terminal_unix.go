//go:build unix

package trainer

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether people see what is written to f.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// terminalWidth returns the columns of the terminal, asked anew each time since windows change
// their size; 80 where it does not tell.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}
