package ddp

import (
	"testing"
	"time"
)

// SetAfterLeaving shortens the wait for what a process has sent before it left.
func SetAfterLeaving(t *testing.T, d time.Duration) {
	former := registry.afterLeaving.Swap(int64(d))
	t.Cleanup(func() { registry.afterLeaving.Store(former) })
}

// DeviceOf is the GPU of a process.
var DeviceOf = deviceOf

// SetGPUs has groups believe that libtorch sees so many.
func SetGPUs(t *testing.T, n int) {
	former := gpus
	gpus = func() int { return n }
	t.Cleanup(func() { gpus = former })
}
