package ddp

import (
	"testing"
	"time"
)

// SetAfterLeaving shortens the wait for what a process has sent before it left.
func SetAfterLeaving(t *testing.T, d time.Duration) {
	former := made.afterLeaving.Swap(int64(d))
	t.Cleanup(func() { made.afterLeaving.Store(former) })
}
