package torch

import "sync"

// hasGPU is asked once: the GPUs of a process do not change.
var hasGPU = sync.OnceValue(func() bool { return CUDADevices() > 0 })

// FromPinned is [From] into page-locked memory, from which a GPU copies while the host continues:
// see [Tensor.ToDeviceNonBlocking]. data is copied at once. libtorch keeps freed memory of this
// kind for the next tensor. Where libtorch sees no GPU it is From.
func FromPinned[T Element](data []T, shape ...int64) Tensor {
	if !hasGPU() {
		return From(data, shape...)
	}
	if shape == nil {
		shape = []int64{int64(len(data))}
	}
	return fromBytes("FromPinned", bytesOf(data), DTypeOf[T](), true, shape)
}

// PinMemory returns t, on the CPU, in page-locked memory, or t itself if it is there or libtorch
// sees no GPU: Tensor.pin_memory.
func (t Tensor) PinMemory() Tensor {
	if !hasGPU() {
		return t
	}
	return Call("aten::pin_memory", t)[0]
}

// ToDeviceNonBlocking is [Tensor.ToDevice] that does not wait for a copy from page-locked memory to
// a GPU: Tensor.to(device, non_blocking=True). The copy is made in the order of the current stream,
// and t may be freed at once. From other memory, and to the CPU, whose reader would have to know
// when the copy is there, it waits as ToDevice does.
func (t Tensor) ToDeviceNonBlocking(d Device) Tensor {
	return t.to("ToDeviceNonBlocking", DefaultDType, d.code(), d.IsCUDA(), false)
}
