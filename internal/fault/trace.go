package main

import (
	"fmt"
	"syscall"
)

// The tracer stops a victim at each system call that concerns a folder, in any thread, and lets the
// call proceed, makes it fail, shortens it, or kills the process. It does what strace does with -e
// inject, but needs nothing installed and selects calls by folder.

// systemCall is a call that concerns the folder: its number among these calls, from 1, its name,
// and the path or file.
type systemCall struct {
	number int
	name   string
	path   string
}

func (c systemCall) String() string { return fmt.Sprintf("call %d, %s(%s)", c.number, c.name, c.path) }

// verdict is what happens to a call. The zero value lets it proceed.
type verdict struct {
	kill  bool          // the process is killed before the call
	errno syscall.Errno // the call is not made and returns this error
	half  bool          // a write writes only the first half
}
