//go:build !linux

// Package osthread runs goroutines on their own OS threads.
package osthread

import "runtime"

// Brief runs f as a goroutine on an OS thread that ends with it.
func Brief(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		f()
	}()
}
