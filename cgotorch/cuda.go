package cgotorch

// #include <stdlib.h>
// #include "load.h"
import "C"

import "unsafe"

// CUDAMemory holds the statistics of a GPU's caching allocator in bytes: current values, and peaks
// since the last [CUDAResetPeak].
type CUDAMemory struct {
	Allocated, AllocatedPeak int64 // tensors
	Active, ActivePeak       int64 // tensors and blocks that a stream may still use
	Reserved, ReservedPeak   int64 // memory taken from the GPU
	Requested, RequestedPeak int64 // before rounding
	Retries                  int64 // allocations that succeeded only after the cache was emptied
	OutOfMemory              int64 // allocations that failed even then
	DeviceAllocations        int64 // calls of cudaMalloc
}

// CUDAGetMemory reads the statistics of a GPU.
func CUDAGetMemory(index int, out *CUDAMemory) Code {
	return Code(C.ct_cuda_get_memory(C.int32_t(index), (*C.ct_cuda_memory)(unsafe.Pointer(out))))
}

// CUDAMemoryInfo reads how much memory of a GPU is free, and how much it has in total.
func CUDAMemoryInfo(index int, free, total *int64) Code {
	return Code(C.ct_cuda_memory_info(C.int32_t(index), (*C.int64_t)(free), (*C.int64_t)(total)))
}

// CUDAResetPeak resets the peaks to the current values.
func CUDAResetPeak(index int) Code { return Code(C.ct_cuda_reset_peak(C.int32_t(index))) }

// CUDASynchronize waits for all work on a GPU.
func CUDASynchronize(index int) Code { return Code(C.ct_cuda_synchronize(C.int32_t(index))) }

// CUDASwapDevice sets the current GPU of the calling thread.
func CUDASwapDevice(index int, former *int32) Code {
	return Code(C.ct_cuda_swap_device(C.int32_t(index), (*C.int32_t)(former)))
}

// Stream is a c10::Stream, which libtorch's pools own.
type Stream struct{ ID, Device, Type int64 }

func (s *Stream) c() *C.ct_stream { return (*C.ct_stream)(unsafe.Pointer(s)) }

// CUDANewStream takes a stream from the pool.
func CUDANewStream(index int, highPriority bool, out *Stream) Code {
	return Code(C.ct_cuda_new_stream(C.int32_t(index), boolean(highPriority), out.c()))
}

// CUDACurrentStream returns the current stream of the calling thread on a GPU.
func CUDACurrentStream(index int, out *Stream) Code {
	return Code(C.ct_cuda_current_stream(C.int32_t(index), out.c()))
}

// CUDASwapStream makes s the current stream of the calling thread on its GPU.
func CUDASwapStream(s, former *Stream) Code { return Code(C.ct_cuda_swap_stream(s.c(), former.c())) }

// CUDAStreamReady reports whether all work of s is done.
func CUDAStreamReady(s *Stream, ready *int32) Code {
	return Code(C.ct_cuda_stream_ready(s.c(), (*C.int32_t)(ready)))
}

// CUDASynchronizeStream waits until all work of s is done.
func CUDASynchronizeStream(s *Stream) Code { return Code(C.ct_cuda_synchronize_stream(s.c())) }

// CUDARecordStream marks t as used by s: the memory of t is not reused before s has finished the
// work that it holds now.
func CUDARecordStream(t Tensor, s *Stream) Code { return Code(C.ct_cuda_record_stream(t, s.c())) }

// Event is the address of a c10::Event.
type Event = unsafe.Pointer

// CUDANewEvent makes an event that CUDAFreeEvent frees.
func CUDANewEvent(timing bool, out *Event) Code {
	return Code(C.ct_cuda_new_event(boolean(timing), out))
}

// CUDARecordEvent records e in s.
func CUDARecordEvent(e Event, s *Stream) Code { return Code(C.ct_cuda_record_event(e, s.c())) }

// CUDAWaitEvent makes s wait for e; the host does not wait.
func CUDAWaitEvent(e Event, s *Stream) Code { return Code(C.ct_cuda_wait_event(e, s.c())) }

// CUDAEventReady reports whether e has been reached.
func CUDAEventReady(e Event, ready *int32) Code {
	return Code(C.ct_cuda_event_ready(e, (*C.int32_t)(ready)))
}

// CUDASynchronizeEvent waits until e is reached.
func CUDASynchronizeEvent(e Event) Code { return Code(C.ct_cuda_synchronize_event(e)) }

// CUDAElapsed returns the time between two events made with timing.
func CUDAElapsed(from, to Event, milliseconds *float64) Code {
	return Code(C.ct_cuda_elapsed(from, to, (*C.double)(milliseconds)))
}

// CUDAFreeEvent frees an event.
func CUDAFreeEvent(e Event) { C.ct_cuda_free_event(e) }

// CUDAFreeEventAt is CUDAFreeEvent for a cleanup, which has only the address.
func CUDAFreeEventAt(address uintptr) { CUDAFreeEvent(*(*Event)(unsafe.Pointer(&address))) }

// CUDAVersions returns the loaded versions of the CUDA runtime (13000 is 13.0) and of cuDNN (91900
// is 9.19.0; 0 means that it is missing).
func CUDAVersions(cudart, cudnn *int64) Code {
	return Code(C.ct_cuda_versions((*C.int64_t)(cudart), (*C.int64_t)(cudnn)))
}

// The settings of at::Context.
const (
	CuDNNEnabled        = int(C.CT_CUDNN_ENABLED)
	CuDNNBenchmark      = int(C.CT_CUDNN_BENCHMARK)
	CuDNNBenchmarkLimit = int(C.CT_CUDNN_BENCHMARK_LIMIT)
	CuDNNDeterministic  = int(C.CT_CUDNN_DETERMINISTIC)
	CuDNNTF32           = int(C.CT_CUDNN_TF32)
	CuBLASTF32          = int(C.CT_CUBLAS_TF32)
	FlashAttention      = int(C.CT_FLASH_ATTENTION)
	EfficientAttention  = int(C.CT_EFFICIENT_ATTENTION)
	MathAttention       = int(C.CT_MATH_ATTENTION)
	CuDNNAttention      = int(C.CT_CUDNN_ATTENTION)
)

// SetContext changes a setting of at::Context for the whole process.
func SetContext(what, value int) Code {
	return Code(C.ct_set_context(C.int32_t(what), C.int32_t(value)))
}

// Context reads a setting of at::Context.
func Context(what int, value *int32) Code {
	return Code(C.ct_context(C.int32_t(what), (*C.int32_t)(value)))
}

// Float32Precision returns the float32 precision of an operator ("all", "conv", "rnn", "matmul") of
// a backend ("generic", "cuda", "mkldnn").
func Float32Precision(backend, op string) (string, Code) {
	b, o := C.CString(backend), C.CString(op)
	defer C.free(unsafe.Pointer(b))
	defer C.free(unsafe.Pointer(o))
	var out *C.char
	code := Code(C.ct_float32_precision(b, o, &out))
	if code < 0 {
		return "", code
	}
	return C.GoString(out), code
}

// SetFloat32PrecisionOf sets the float32 precision of an operator of a backend to "ieee", "tf32",
// "bf16" or "none", which falls back to that of the backend or of "generic".
func SetFloat32PrecisionOf(backend, op, precision string) Code {
	b, o, p := C.CString(backend), C.CString(op), C.CString(precision)
	defer C.free(unsafe.Pointer(b))
	defer C.free(unsafe.Pointer(o))
	defer C.free(unsafe.Pointer(p))
	return Code(C.ct_set_float32_precision_of(b, o, p))
}

// DeviceFailed reports whether a GPU has failed in this process: [ErrDevice].
func DeviceFailed() bool { return C.ct_device_failed() != 0 }
