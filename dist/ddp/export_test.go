package ddp

import (
	"testing"
	"time"
)

// SetAfterLeaving changes how long calls wait for data that a process sent before it left.
func SetAfterLeaving(t *testing.T, d time.Duration) {
	former := registry.afterLeaving.Swap(int64(d))
	t.Cleanup(func() { registry.afterLeaving.Store(former) })
}

// DeviceOf returns the GPU of a process.
var DeviceOf = deviceOf

// SetGPUs makes groups believe that libtorch sees n GPUs.
func SetGPUs(t *testing.T, n int) {
	former := gpus
	gpus = func() int { return n }
	t.Cleanup(func() { gpus = former })
}
