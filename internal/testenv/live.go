package testenv

import (
	"runtime"
	"time"

	"github.com/gotrainer/gotrainer/torch"
)

// Live returns the number of live tensors, after those that earlier tests left to the garbage
// collector have been freed: tests that count tensors must call it first. Cleanups run some time
// after a collection, so it collects until the number no longer changes.
func Live() int64 {
	for live := torch.Live(); ; {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
		now := torch.Live()
		if now == live {
			return live
		}
		live = now
	}
}
