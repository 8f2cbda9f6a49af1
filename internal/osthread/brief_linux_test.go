package osthread

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

func TestABriefThreadEnds(t *testing.T) {
	for range 100 { // one of them may run on the first thread of the process
		thread := make(chan int)
		Brief(func() { thread <- unix.Gettid() })
		id := <-thread
		assert.NotEqual(t, os.Getpid(), id, "the first thread of a process never ends before it")
		assert.Eventually(t, func() bool {
			_, err := os.Stat(fmt.Sprint("/proc/self/task/", id))
			return os.IsNotExist(err)
		}, 10*time.Second, time.Millisecond)
	}
}

// init locks the main goroutine to the first thread of the process, as some programs must.
func init() { runtime.LockOSThread() }

// A goroutine on the first thread starts another one.
func TestMain(m *testing.M) {
	if unix.Gettid() != os.Getpid() {
		panic("the main goroutine is not on the first thread")
	}
	runtime.UnlockOSThread()
	os.Exit(m.Run())
}
