package testenv

import (
	"runtime"
	"time"

	"github.com/gotrainer/gotrainer/torch"
)

// Live is the number of tensors that are alive once the tensors that earlier tests have left to the
// garbage collector are gone: a test that counts begins with it, or their end falls into its count.
// Cleanups run some time after a collection, so it collects until the number stands still.
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
