//go:build !linux

package trainer_test

// threadID cannot tell threads apart here.
func threadID() int { return 0 }
