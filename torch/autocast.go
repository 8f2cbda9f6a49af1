package torch

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Autocast runs f with automatic mixed precision on one kind of device: torch.autocast. Package amp
// has the form for training loops. DefaultDType is PyTorch's choice: bfloat16 on the CPU, float16
// on a GPU. With enabled false it turns an outer Autocast off for f. Weights are cast once per
// outermost region when cache is set.
//
// libtorch has one cache for all threads, and an outermost region that ends empties it. So where
// goroutines have regions at the same time, a weight that a region uses twice may be cast twice, by
// chance, and the last bits of its gradient may differ. [Tensor.LSTM] and [Tensor.GRU], which use
// theirs at every step, cast them once.
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
