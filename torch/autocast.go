package torch

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Autocast runs f with automatic mixed precision on one kind of device: torch.autocast. Package amp has the form for training loops.
// With enabled false it turns an outer Autocast off for f. Weights are cast once per outermost region when cache is set.
func Autocast(device Device, dtype DType, enabled, cache bool, f func()) {
	load("Autocast")
	runtime.LockOSThread()
	var saved int64
	check("Autocast", cgotorch.EnterAutocast(int32(device.kind), enabled, dtype.code(), cache, &saved))
	defer func() {
		code := cgotorch.LeaveAutocast(int32(device.kind), saved)
		runtime.UnlockOSThread()
		check("Autocast", code)
	}()
	f()
}
