// Package osthread runs goroutines on OS threads of their own.
package osthread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Brief runs f as a goroutine on an OS thread that ends with it. Libtorch keeps threads for the
// operators of each thread that has computed, as long as that thread lives, and where all of them
// are more than there are CPUs, they sleep after every operator: work beside a training must not
// leave a thread behind.
func Brief(f func()) {
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		// But for the first thread of the process, which this goroutine holds until another one runs f.
		defer runtime.UnlockOSThread()
		begun := make(chan struct{})
		Brief(func() {
			close(begun)
			f()
		})
		<-begun
	}()
}
