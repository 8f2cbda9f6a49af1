package trainer_test

import "golang.org/x/sys/unix"

// threadID returns the ID of the operating system's thread that runs the caller.
func threadID() int { return unix.Gettid() }
