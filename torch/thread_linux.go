package torch

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onBriefThread runs f on an OS thread that ends with it. Threads that wait for the next operator of
// a thread are kept as long as that thread, and where there are more of them than CPUs libgomp has
// all of them sleep sooner.
func onBriefThread(f func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			err := Try(func() { onBriefThread(f) }) // but for the first thread of the process
			runtime.UnlockOSThread()
			done <- err
			return
		}
		done <- Try(f)
	}()
	if err := <-done; err != nil {
		panic(err)
	}
}
