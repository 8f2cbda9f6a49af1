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

// CPU is the host's memory.
var CPU = Device{}

// Meta is where tensors have a shape and a dtype and no memory: operators compute shapes there, and
// in place nothing. Package nn makes parameters there that are drawn later: nn.Defer. Nothing is
// moved from it: torch.device("meta").
var Meta = Device{deviceMeta, -1}

const (
	deviceCPU      = 0
	deviceCUDA     = 1
	deviceMeta     = 14
	maxDeviceIndex = 127
)

// CUDA is the GPU number index, from 0. It panics if the index is negative or beyond 127.
func CUDA(index int) Device {
	if index < 0 || index > maxDeviceIndex {
		panic(invalid("CUDA", "the number of a GPU is 0 to %d, not %d", maxDeviceIndex, index))
	}
	return Device{deviceCUDA, int8(index)}
}

// ParseDevice reads "cpu", "cuda:1", "cuda", which is the first GPU or of several processes on this
// machine the one of this process's local rank, as torchrun, mpirun and srun say it in the
// environment, and "auto", which is "cuda" where libtorch can use a GPU and "cpu" elsewhere. A GPU
// that cannot be used is an error that says why: [CheckDevice].
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

// CheckDevice returns nil if tensors can be made on a device. Otherwise it says in a sentence why
// not: libtorch is not installed, or its build is for CPUs only; there is no NVIDIA driver, or it
// is too old; CUDA_VISIBLE_DEVICES hides the GPU; there are fewer of them. But for the first such an
// error is [ErrNotSupported]. It loads libtorch if the device is a GPU.
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

// noGPU is why there is none, found once.
var noGPU = sync.OnceValue(func() string { return loaded.NoGPU() })

// NoGraphs is why there are no CUDA graphs although libtorch uses GPUs; nil: there are.
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

// localGPU is the GPU of this process among those of this machine.
func localGPU(device string, gpus int, getenv func(string) string) (Device, error) {
	if gpus == 1 && getenv("CUDA_VISIBLE_DEVICES") != "" { // the launcher gives each process its own
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

// localRanks are the variables in which launchers say which of this machine's processes this is, in
// the order of package dist: torchrun, Open MPI, MVAPICH, Hydra, Slurm.
var localRanks = []string{
	"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID",
}

// IsCUDA tells whether the device is a GPU.
func (d Device) IsCUDA() bool { return d.kind == deviceCUDA }

// Index is the number of a GPU.
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

// code is the shim's form: type << 8 | index, where that of the CPU and of Meta is -1.
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

// CUDADevices is the number of GPUs that libtorch can use. [CheckDevice] says why there is none.
func CUDADevices() int {
	load("CUDADevices")
	return cgotorch.CUDADevices()
}
