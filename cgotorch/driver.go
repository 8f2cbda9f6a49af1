package cgotorch

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// machine is the system as seen before CUDA's libraries are loaded; tests replace it.
type machine struct {
	os        string
	exists    func(path string) bool
	lookupEnv func(name string) (value string, set bool)
	version   func() (int, error) // the newest CUDA version that the driver supports: 13000 is 13.0
	gpus      func() (int, error) // the number of GPUs that the driver finds
}

func here() machine {
	return machine{runtime.GOOS, fileExists, os.LookupEnv, driverVersion, driverGPUs}
}

// libraries are the paths under which the driver's library is searched for: the system's search
// path, then the folders used by WSL 2 and by containers.
var libraries = []string{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"}

var errNoDriver = errors.New("libcuda.so.1 cannot be opened")

// ask calls question with the path of the driver's library, and returns an error if the driver is
// missing or fails.
func ask(question func(path *C.char) C.int32_t) error {
	for _, library := range libraries {
		path := C.CString(library)
		code := question(path)
		C.free(unsafe.Pointer(path))
		if code != C.CT_DRIVER_MISSING {
			return driverError(code)
		}
	}
	return errNoDriver
}

// driverError converts a result code of the driver into an error.
func driverError(code C.int32_t) error {
	switch code {
	case 0:
		return nil
	case C.CT_DRIVER_STRANGE:
		return errors.New("libcuda.so.1 lacks the functions of a driver")
	case 100:
		return errors.New("error 100, no device")
	case 803:
		return errors.New("error 803, its kernel module is of another version than libcuda.so.1")
	}
	return fmt.Errorf("error %d", int(code))
}

func driverVersion() (int, error) {
	var version C.int32_t
	err := ask(func(path *C.char) C.int32_t { return C.ct_driver_version(path, &version) })
	return int(version), err
}

func driverGPUs() (int, error) {
	var count C.int32_t
	err := ask(func(path *C.char) C.int32_t { return C.ct_driver_gpus(path, &count) })
	return int(count), err
}

// DriverVersion returns the CUDA version that the NVIDIA driver supports (13000 is 13.0), or 0 if
// there is no driver. It does not initialize CUDA.
func DriverVersion() int {
	version, err := driverVersion()
	if err != nil {
		return 0
	}
	return version
}

// GPU is the driver's description of a GPU.
type GPU struct {
	Name            string
	Major, Minor    int // compute capability
	Multiprocessors int
	Memory          int64 // bytes
}

// ReadGPU asks the driver about GPU number index among those that CUDA_VISIBLE_DEVICES selects.
func ReadGPU(index int) (GPU, error) {
	var c C.ct_gpu
	if err := ask(func(path *C.char) C.int32_t { return C.ct_driver_gpu(path, C.int32_t(index), &c) }); err != nil {
		return GPU{}, fmt.Errorf("the NVIDIA driver tells nothing of GPU %d: %w", index, err)
	}
	return GPU{C.GoString(&c.name[0]), int(c.major), int(c.minor), int(c.multiprocessors), int64(c.memory)}, nil
}

// hasGPU reports whether the kernel has an NVIDIA GPU: the device of the NVIDIA driver or that of
// WSL 2.
func (m machine) hasGPU() bool { return m.exists("/dev/nvidiactl") || m.exists("/dev/dxg") }

// noCUDA returns the reason why libtorch's CUDA libraries would find no GPU, or the empty string if
// they are worth loading. lib is the folder of libtorch's libraries.
func (m machine) noCUDA(lib string) string {
	if m.os != "linux" {
		return "libtorch uses NVIDIA's GPUs on Linux only, and this is " + m.os
	}
	version, err := m.version()
	need := neededCUDA(lib)
	hidden, set := m.lookupEnv("CUDA_VISIBLE_DEVICES")
	hidden = strings.TrimSpace(hidden)
	switch {
	case errors.Is(err, errNoDriver) && m.hasGPU():
		return "the kernel has a GPU, but the NVIDIA driver's library is not there (libcuda.so.1 cannot be opened): " +
			"install it, or start the container with --gpus all"
	case errors.Is(err, errNoDriver):
		return "there is no NVIDIA driver on this machine (libcuda.so.1 cannot be opened)"
	case err != nil:
		return fmt.Sprintf("the NVIDIA driver does not tell its version: %v", err)
	case version < need:
		return fmt.Sprintf("the NVIDIA driver is too old: it serves CUDA %s, and libtorch needs CUDA %s, that is driver %s",
			cudaName(version), cudaName(need), driverFor(need))
	case !m.exists(filepath.Join(lib, "libtorch_cuda"+librarySuffix())):
		return "this is the CPU build of libtorch: make setup CUDA=1, or gotrainer install --cuda, installs the CUDA build"
	case set && (hidden == "" || strings.HasPrefix(hidden, "-1")):
		return fmt.Sprintf("CUDA_VISIBLE_DEVICES is %q in the environment, which hides every GPU: unset it, or name "+
			"some, as in CUDA_VISIBLE_DEVICES=0", hidden)
	}
	return ""
}

// noGPU returns the reason why libtorch finds no GPU although its CUDA libraries are loaded.
func (m machine) noGPU() string {
	n, err := m.gpus()
	visible, set := m.lookupEnv("CUDA_VISIBLE_DEVICES")
	switch {
	case err != nil && set:
		return fmt.Sprintf("the NVIDIA driver finds no GPU (cuInit: %v): CUDA_VISIBLE_DEVICES is %q", err, visible)
	case err != nil:
		return fmt.Sprintf("the NVIDIA driver finds no GPU (cuInit: %v): in a container, start it with --gpus all", err)
	case n == 0:
		return fmt.Sprintf("the NVIDIA driver finds no GPU: CUDA_VISIBLE_DEVICES is %q", visible)
	}
	return fmt.Sprintf("the NVIDIA driver finds %d GPUs, but libtorch cannot use them", n)
}

// NoGPU returns the reason why the loaded libtorch, which found no GPU, can use none.
func (l Loaded) NoGPU() string {
	switch {
	case l.noCUDA != "":
		return l.noCUDA
	case !l.cuda:
		return here().noCUDA(l.LibTorch)
	}
	return here().noGPU()
}

var (
	buildFolder = regexp.MustCompile(`-cu(\d\d)\d$`)
	buildFile   = regexp.MustCompile(`(?m)^cuda\b[^=\n]*= '(\d+)\.\d+'`)
)

// neededCUDA returns the oldest CUDA version that a driver must support for a libtorch, 13000 for
// 13.0: the first of the major version that libtorch was built with. That version is found in the
// name of libtorch's folder or in version.py of a Python installation.
func neededCUDA(lib string) int {
	root := filepath.Dir(lib)
	found := buildFolder.FindStringSubmatch(filepath.Base(root))
	if found == nil {
		if text, err := os.ReadFile(filepath.Join(root, "version.py")); err == nil {
			found = buildFile.FindStringSubmatch(string(text))
		}
	}
	major := 13 // of the pinned build, cu130
	if found != nil {
		major, _ = strconv.Atoi(found[1])
	}
	return major * 1000
}

func cudaName(version int) string { return fmt.Sprintf("%d.%d", version/1000, version%1000/10) }

// driverFor returns the oldest driver that supports a CUDA version, from the table in CUDA's
// release notes.
func driverFor(version int) string {
	switch version / 1000 {
	case 12:
		return "525 or newer"
	case 13:
		return "580 or newer"
	}
	return "of that version or newer"
}
