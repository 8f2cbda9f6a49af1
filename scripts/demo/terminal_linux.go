package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudoterminal: what the program prints to far can be read from near.
func openTerminal(columns, rows int) (near, far *os.File, err error) {
	near, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(near.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	size := &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size); err != nil {
		return nil, nil, err
	}
	far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	return near, far, err
}
