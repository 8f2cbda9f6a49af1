package main

import (
	"fmt"
	"syscall"
)

// The tracer stops a victim at each of its system calls that concern a folder, in whichever thread,
// and lets it pass, makes it fail, shortens it or kills the process there. It is what strace does
// with -e inject, by hand, so that nothing has to be installed and calls are chosen by the folder
// that they are about.

// systemCall is one that concerns the folder: its number among them, from 1, its name and the path
// or the file that it is about.
type systemCall struct {
	number int
	name   string
	path   string
}

func (c systemCall) String() string { return fmt.Sprintf("call %d, %s(%s)", c.number, c.name, c.path) }

// verdict is what happens to a call. The zero value lets it pass.
type verdict struct {
	kill  bool          // the process dies before the call
	errno syscall.Errno // the call is not made and fails
	half  bool          // of a write only the first half is written
}
