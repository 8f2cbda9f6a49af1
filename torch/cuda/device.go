package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// Available reports whether libtorch can use a GPU: torch.cuda.is_available. It panics if libtorch
// cannot be loaded.
func Available() bool { return torch.CUDADevices() > 0 }

// DeviceCount returns the number of GPUs that libtorch can use: torch.cuda.device_count.
func DeviceCount() int { return torch.CUDADevices() }

// Properties describes a GPU: torch.cuda.get_device_properties.
type Properties struct {
	Name                string     // "NVIDIA H200"
	Capability          Capability // compute capability
	MultiprocessorCount int
	TotalMemory         int64 // in bytes
}

// Capability is the compute capability of a GPU: 8.0 is Ampere, 9.0 Hopper.
type Capability struct{ Major, Minor int }

// String returns "9.0".
func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

// BF16 reports whether the GPU computes in bfloat16: from 8.0 on. Older GPUs emulate it, slowly.
func (c Capability) BF16() bool { return c.Major >= 8 }

// TF32 reports whether the GPU has TF32 arithmetic: from 8.0 on.
func (c Capability) TF32() bool { return c.Major >= 8 }

// DeviceProperties returns the properties of a GPU, as the driver reports them.
func DeviceProperties(d torch.Device) (Properties, error) {
	if err := usable(d); err != nil {
		return Properties{}, err
	}
	gpu, err := cgotorch.ReadGPU(d.Index())
	if err != nil {
		return Properties{}, fmt.Errorf("cuda: %w", err)
	}
	return Properties{gpu.Name, Capability{gpu.Major, gpu.Minor}, gpu.Multiprocessors, gpu.Memory}, nil
}

// usable returns an error if d is not a GPU, or is one that cannot be used.
func usable(d torch.Device) error {
	switch {
	case !d.IsCUDA():
		return torch.Errorf(d.String(), torch.ErrInvalid, "it is no GPU; want one, such as torch.CUDA(0)")
	case torch.DeviceFailed():
		return torch.Errorf(d.String(), torch.ErrDevice, "a GPU has failed in this process, which must end: CUDA refuses "+
			"all further work")
	}
	return torch.CheckDevice(d)
}

// need panics if d cannot be used.
func need(op string, d torch.Device) {
	if err := usable(d); err != nil {
		panic(asTorch(op, err))
	}
}

func asTorch(op string, err error) *torch.Error {
	if e, ok := errors.AsType[*torch.Error](err); ok {
		return torch.Errorf("cuda."+op, e.Code, "%s: %s", e.Op, e.Msg)
	}
	return torch.Errorf("cuda."+op, torch.ErrNotInstalled, "%v", err)
}

// Versions are the versions of the libraries that the CUDA part of libtorch has loaded. Zero means
// unknown.
type Versions struct {
	Driver  int // the CUDA version that the driver supports: 13000 is 13.0
	Runtime int // cudart: 13000
	CuDNN   int // 91900 is 9.19.0
}

// LibraryVersions returns the versions. Without a GPU it returns an error and only the driver's
// version.
func LibraryVersions() (Versions, error) {
	v := Versions{Driver: cgotorch.DriverVersion()}
	if err := usable(torch.CUDA(0)); err != nil {
		return v, err
	}
	var cudart, cudnn int64
	err := try("LibraryVersions", cgotorch.CUDAVersions(&cudart, &cudnn))
	v.Runtime, v.CuDNN = int(cudart), int(cudnn)
	return v, err
}

// On runs f with d as the current GPU: torch.cuda.device. The current GPU is the one on which
// operators without tensor arguments make their results if their device is "cuda" without a
// number. [CurrentStream] and collectives use it too. It panics if d cannot be used.
func On(d torch.Device, f func()) {
	need("On", d)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var former, ignored int32
	check("On", cgotorch.CUDASwapDevice(d.Index(), &former))
	defer func() {
		if !torch.DeviceFailed() {
			check("On", cgotorch.CUDASwapDevice(int(former), &ignored))
		}
	}()
	f()
}

// Synchronize waits until d has finished all its work: torch.cuda.synchronize. Errors of kernels
// appear here at the latest; it panics with them.
func Synchronize(d torch.Device) {
	need("Synchronize", d)
	check("Synchronize", cgotorch.CUDASynchronize(d.Index()))
}

// check panics if a call failed.
func check(op string, code cgotorch.Code) { torch.CheckCode("cuda."+op, code) }

// try is like check but returns the error instead of panicking.
func try(op string, code cgotorch.Code) error { return torch.Try(func() { check(op, code) }) }
