// Package osthread runs goroutines on their own OS threads.
package osthread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Brief runs f as a goroutine on an OS thread that ends with it. For each thread that has computed,
// libtorch keeps a pool of threads for operators as long as that thread lives. If there are more of
// these than CPUs, they sleep after every operator, so work in parallel to a training must not
// leave a thread behind.
func Brief(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		// On the first thread of the process, which must not end, this goroutine waits until
		// another one has started f.
		defer runtime.UnlockOSThread()
		begun := make(chan struct{})
		Brief(func() {
			close(begun)
			f()
		})
		<-begun
	}()
}
