package torch

import "sync"

// hasGPU is determined once, because the GPUs of a process do not change.
var hasGPU = sync.OnceValue(func() bool { return CUDADevices() > 0 })

// FromPinned is like [From] but copies data into page-locked memory, from which a GPU can copy
// while the host continues: see [Tensor.ToDeviceNonBlocking]. data is copied at once. libtorch
// keeps freed memory of this kind for the next tensor. If libtorch sees no GPU, it is the same as
// From.
func FromPinned[T Element](data []T, shape ...int64) Tensor {
	if !hasGPU() {
		return From(data, shape...)
	}
	if shape == nil {
		shape = []int64{int64(len(data))}
	}
	return fromBytes("FromPinned", bytesOf(data), DTypeOf[T](), true, shape)
}

// PinMemory returns t, a CPU tensor, in page-locked memory: Tensor.pin_memory. It returns t itself
// if t is there already or if libtorch sees no GPU.
func (t Tensor) PinMemory() Tensor {
	if !hasGPU() {
		return t
	}
	return Call("aten::pin_memory", t)[0]
}

// ToDeviceNonBlocking is like [Tensor.ToDevice] but does not wait for a copy from page-locked
// memory to a GPU: Tensor.to(device, non_blocking=True). The copy is queued on the current stream,
// and t may be freed at once. Like ToDevice, it waits for copies from other memory and for copies
// to the CPU, whose reader would have to know when the copy is complete.
func (t Tensor) ToDeviceNonBlocking(d Device) Tensor {
	return t.to("ToDeviceNonBlocking", DefaultDType, d.code(), d.IsCUDA(), false)
}
