package torch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Device says where a tensor is. The zero value is [CPU].
type Device struct {
	kind  int8 // c10::DeviceType
	index int8
}

// CPU is host memory.
var CPU = Device{}

// Meta is the device whose tensors have a shape and a dtype but no memory: torch.device("meta").
// Operators compute shapes there, and in-place operators do nothing. Nothing can be copied from
// it. Package nn makes parameters on it whose values are drawn later: nn.Defer.
var Meta = Device{deviceMeta, -1}

const (
	deviceCPU      = 0
	deviceCUDA     = 1
	deviceMeta     = 14
	maxDeviceIndex = 127
)

// CUDA returns the GPU with the given index, counted from 0. It panics if the index is negative or
// greater than 127.
func CUDA(index int) Device {
	if index < 0 || index > maxDeviceIndex {
		panic(invalid("CUDA", "the number of a GPU is 0 to %d, not %d", maxDeviceIndex, index))
	}
	return Device{deviceCUDA, int8(index)}
}

// ParseDevice parses the name of a device:
//
//   - "cpu";
//   - "cuda:1";
//   - "cuda", the first GPU or, if several processes run on this machine, the GPU of this
//     process's local rank, as torchrun, mpirun and srun set it in the environment;
//   - "auto", which is "cuda" if libtorch can use a GPU and "cpu" otherwise.
//
// If the GPU cannot be used, it returns the error of [CheckDevice], which says why.
func ParseDevice(s string) (Device, error) {
	name, number, numbered := strings.Cut(s, ":")
	index := 0
	if numbered {
		var err error
		if index, err = strconv.Atoi(number); err != nil || index < 0 || index > maxDeviceIndex {
			return Device{}, fmt.Errorf("torch: device %q: want a number after the colon, as in cuda:1", s)
		}
	}
	switch name {
	case "auto":
		if numbered {
			return Device{}, fmt.Errorf("torch: device %q: auto takes no number; want auto or cuda:%d", s, index)
		}
		return autoDevice()
	case "cpu":
		return CPU, nil
	case "cuda":
		if err := CheckDevice(CUDA(index)); err != nil {
			return Device{}, err
		}
		if !numbered {
			return localGPU(name, CUDADevices(), os.Getenv)
		}
		return CUDA(index), nil
	}
	return Device{}, fmt.Errorf("torch: device %q is not known: want auto, cpu, cuda or cuda:N", s)
}

// CheckDevice returns nil if tensors can be made on a device. Otherwise the error says why not:
// libtorch is not installed, or is a build for CPUs only; there is no NVIDIA driver, or it is too
// old; CUDA_VISIBLE_DEVICES hides the GPU; there are fewer GPUs. All of these except the first are
// [ErrNotSupported]. It loads libtorch if the device is a GPU.
func CheckDevice(d Device) error {
	if !d.IsCUDA() {
		return nil
	}
	if err := Load(); err != nil {
		return err
	}
	switch n := CUDADevices(); {
	case n == 0:
		return &Error{Op: d.String(), Code: ErrNotSupported, Msg: noGPU()}
	case d.Index() >= n:
		return &Error{Op: d.String(), Code: ErrNotSupported, Msg: fmt.Sprintf("libtorch sees %s, cuda:0 to cuda:%d",
			gpuCount(n), n-1)}
	}
	return nil
}

// noGPU returns the reason why libtorch can use no GPU, determined once.
var noGPU = sync.OnceValue(func() string { return loaded.NoGPU() })

// NoGraphs returns the reason why CUDA graphs are not available although libtorch uses GPUs, or
// nil if they are.
func NoGraphs() error { return loaded.NoGraphs() }

func gpuCount(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

func autoDevice() (Device, error) {
	if err := Load(); err != nil {
		return Device{}, err
	}
	if CUDADevices() == 0 {
		return CPU, nil
	}
	return localGPU("auto", CUDADevices(), os.Getenv)
}

// localGPU returns the GPU for this process: the one whose index is the local rank of the process.
func localGPU(device string, gpus int, getenv func(string) string) (Device, error) {
	// The launcher has already assigned a GPU to each process.
	if gpus == 1 && getenv("CUDA_VISIBLE_DEVICES") != "" {
		return CUDA(0), nil
	}
	for _, variable := range localRanks {
		text := getenv(variable)
		if text == "" {
			continue
		}
		index, err := strconv.Atoi(text)
		if err != nil || index < 0 || index >= gpus {
			return Device{}, fmt.Errorf("torch: device %s: %s in the environment is %q, and libtorch sees %s; start at "+
				"most as many processes on this machine, or name the device", device, variable, text, gpuCount(gpus))
		}
		return CUDA(index), nil
	}
	return CUDA(0), nil
}

// localRanks are the environment variables in which launchers set a process's local rank, in the
// order in which package dist tries them: torchrun, Open MPI, MVAPICH, Hydra, Slurm.
var localRanks = []string{
	"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID",
}

// IsCUDA reports whether the device is a GPU.
func (d Device) IsCUDA() bool { return d.kind == deviceCUDA }

// Index returns the index of a GPU.
func (d Device) Index() int { return int(d.index) }

// String returns "cpu" or "cuda:0".
func (d Device) String() string {
	if d.kind == deviceCPU {
		return "cpu"
	}
	if d.kind == deviceMeta {
		return "meta"
	}
	return fmt.Sprintf("cuda:%d", d.index)
}

// code encodes the device for the shim as type << 8 | index, where the index is -1 for the CPU and
// Meta.
func (d Device) code() int32 {
	if d.kind == deviceCPU {
		return deviceCPU<<8 | 0xff
	}
	return int32(d.kind)<<8 | int32(uint8(d.index))
}

func deviceOf(code int32) Device {
	if code>>8 == deviceCPU {
		return CPU
	}
	return Device{int8(code >> 8), int8(code)}
}

// CUDADevices returns the number of GPUs that libtorch can use. If it is 0, [CheckDevice] says
// why.
func CUDADevices() int {
	load("CUDADevices")
	return cgotorch.CUDADevices()
}
