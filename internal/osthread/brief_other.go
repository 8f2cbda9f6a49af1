//go:build !linux

// Package osthread runs goroutines on OS threads of their own.
package osthread

import "runtime"

// Brief runs f as a goroutine on an OS thread that ends with it.
func Brief(f func()) {
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		f()
	}()
}
