//go:build !linux

package later

// thread is the same for all: other goroutines must not make models while one is in Defer.
func thread() int { return 0 }
