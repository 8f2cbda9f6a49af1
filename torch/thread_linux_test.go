package torch

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// Its threads within operators end with a thread, and only then.
func TestABriefThreadEnds(t *testing.T) {
	var thread int
	onBriefThread(func() { thread = unix.Gettid() })
	assert.NotEqual(t, os.Getpid(), thread, "the first thread of a process never ends before it")
	assert.Eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprint("/proc/self/task/", thread))
		return os.IsNotExist(err)
	}, 10*time.Second, time.Millisecond)
	assert.PanicsWithError(t, "torch: Add: no", func() {
		onBriefThread(func() { panic(Errorf("Add", ErrInvalid, "no")) })
	})
}
