package torch

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Autocast runs f with automatic mixed precision on one kind of device: torch.autocast. Package
// amp has the form for training loops. DefaultDType selects PyTorch's default: bfloat16 on the
// CPU, float16 on a GPU. If enabled is false, an outer Autocast is turned off for f. If cache is
// set, each weight is cast only once per outermost region.
//
// libtorch has a single cache for all threads, which is emptied whenever an outermost region ends.
// When several goroutines have regions at the same time, a weight that a region uses twice may
// therefore happen to be cast twice, and the last bits of its gradient may differ. [Tensor.LSTM]
// and [Tensor.GRU], which use their weights at every step, cast them once.
func Autocast(device Device, dtype DType, enabled, cache bool, f func()) {
	load("Autocast")
	if dtype == DefaultDType {
		dtype = BFloat16
		if device.IsCUDA() {
			dtype = Float16
		}
	}
	number := dtype.code()
	runtime.LockOSThread()
	var saved int64
	if code := cgotorch.EnterAutocast(int32(device.kind), enabled, number, cache, &saved); code < 0 {
		runtime.UnlockOSThread()
		check("Autocast", code)
	}
	defer func() {
		code := cgotorch.LeaveAutocast(int32(device.kind), saved)
		runtime.UnlockOSThread()
		check("Autocast", code)
	}()
	f()
}
