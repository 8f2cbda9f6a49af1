//go:build cgo

package main

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/fingerprint"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// doctorCommand shows what a training program would find on this machine. A bug report should
// include its output.
type doctorCommand struct{}

// Run is called by kong. It fails if training could not start.
func (*doctorCommand) Run() error {
	d := doctor{
		out:          os.Stdout,
		build:        torch.BuildInfo,
		slowBFloat16: torch.SlowBFloat16,
		compute:      compute,
		fingerprint:  func() string { return fingerprint.Here().String() },
		driver:       nvidiaDriver,
		properties:   cuda.DeviceProperties,
		memory:       cuda.MemoryInfo,
		versions:     cuda.LibraryVersions,
		attention:    cuda.AttentionKernels,
		noGraphs:     torch.NoGraphs,
		root:         torch.InstallRoot(),
		env:          os.Getenv,
		arch:         runtime.GOARCH,
	}
	return d.examine()
}

// doctor examines the machine through functions, so that tests can simulate a faulty one.
type doctor struct {
	out          io.Writer
	build        func() (torch.Build, error)
	slowBFloat16 func() string
	compute      func(device torch.Device) error
	fingerprint  func() string // fingerprint of the numbers that libtorch computes here
	driver       func() string // version of the NVIDIA driver; empty if there is none
	properties   func(torch.Device) (cuda.Properties, error)
	memory       func(torch.Device) (free, total int64, err error)
	versions     func() (cuda.Versions, error)
	attention    func() cuda.Attention
	noGraphs     func() error
	root         string // the install root
	env          func(string) string
	arch         string // of the CPU, as Go names it
}

// examine prints what it finds, and returns an error if a program could not train.
func (d *doctor) examine() error {
	d.line("go", "%s %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, d.arch, runtime.NumCPU())
	d.disk()
	d.environment()
	d.launcher()
	if driver := d.driver(); driver != "" {
		d.line("NVIDIA driver", "%s", driver)
	}

	b, err := d.build()
	if err != nil {
		return err
	}
	d.line("libtorch", "%s in %s", b.Version, b.LibTorch)
	d.line("libcgotorch", "%s (ABI %s)", b.Library, b.ABI)
	d.line("CPU kernels", "%s", b.CPUCapability)
	d.line("threads", "%d within one operator (torch.SetThreads)", b.Threads)
	d.line("waiting", "%v (how these threads wait for each other, docs/performance.md)", b.Waiting)
	switch {
	case b.Reproducible > 0:
		d.line("numbers", "reproducible in float32 on every CPU with AVX2, with threads = %d", b.Reproducible)
	case d.arch != "amd64":
		d.line("numbers", "those of this kind of CPU")
	default:
		d.line("numbers", "those of this kind of CPU (GOTRAINER_REPRODUCIBLE=1 makes them the same on all with AVX2)")
	}
	switch {
	case b.MKL.Intel:
		d.line("MKL", "takes its kernels for Intel's CPUs: %s (GOTRAINER_MKL=native leaves it to itself)", b.MKL.Reason)
	case d.arch != "amd64":
		d.line("MKL", "is not there: it computes on x86-64 only")
	default:
		d.line("MKL", "chooses its kernels itself: %s", b.MKL.Reason)
	}
	d.line("bfloat16", "%s", cmp.Or(d.slowBFloat16(), "is computed by instructions of this CPU"))
	d.line("fingerprint", "%s of these numbers", d.fingerprint())
	if b.OwnGenerators {
		d.line("generators", "each run draws from its own (libcgotorch_generators)")
	} else {
		d.line("generators",
			"runs that train at the same time share one, so their numbers are not those of lone ones: "+
				"libcgotorch_generators is not loaded")
	}
	switch {
	case b.VectorMasks:
		d.line("dropout", "masks are drawn by AVX2, the same as libtorch's (GOTRAINER_MASKS=native leaves them to it)")
	case d.env("GOTRAINER_MASKS") == "native":
		d.line("dropout", "masks are libtorch's, by GOTRAINER_MASKS=native: they take seven times longer")
	case d.arch != "amd64":
		d.line("dropout", "masks are libtorch's")
	default:
		d.line("dropout", "masks are libtorch's: this CPU has no AVX2, or libtorch draws them otherwise")
	}
	if d.env("GOTRAINER_AUTOGRAD") == "native" {
		d.line("autograd", "is libtorch's, by GOTRAINER_AUTOGRAD=native: small models take a tenth longer")
	} else {
		d.line("autograd",
			"linear and cross_entropy_loss are a node each (GOTRAINER_AUTOGRAD=native leaves them to libtorch)")
	}
	if b.KeepsMalloc {
		d.line("malloc", "keeps large blocks for the next step (GOTRAINER_MALLOC=trim gives them back)")
	} else {
		d.line("malloc", "gives large blocks back, by GOTRAINER_MALLOC=trim: steps take longer")
	}

	devices := []torch.Device{torch.CPU}
	for i := range b.CUDADevices {
		devices = append(devices, torch.CUDA(i))
	}
	if b.CUDADevices == 0 {
		d.line("GPU", "none: %s", b.NoCUDA)
	} else if err := d.gpus(b.CUDADevices); err != nil {
		return err
	}
	for _, device := range devices {
		if err := d.compute(device); err != nil {
			return fmt.Errorf("device %v: %w", device, err)
		}
		d.line("device", "%v computes a product and its gradient correctly", device)
	}
	return nil
}

// gpus prints the GPUs and their settings.
func (d *doctor) gpus(n int) error {
	v, err := d.versions()
	if err != nil {
		return err
	}
	d.line("CUDA", "driver for %s, cudart %s, cuDNN %d.%d.%d", cudaVersion(v.Driver), cudaVersion(v.Runtime),
		v.CuDNN/10000, v.CuDNN/100%100, v.CuDNN%100)
	for i := range n {
		device := torch.CUDA(i)
		p, err := d.properties(device)
		if err != nil {
			return err
		}
		free, total, err := d.memory(device)
		if err != nil {
			return fmt.Errorf("device %v: %w", device, err)
		}
		d.line("GPU", "%v is %s, capability %v, %d multiprocessors, %.1f GiB of %.1f GiB free", device, p.Name, p.Capability,
			p.MultiprocessorCount, float64(free)/(1<<30), float64(total)/(1<<30))
	}
	order := d.attention().String() + " (docs/gpu.md)"
	if d.attention().CuDNN && d.env("TORCH_CUDNN_SDPA_DEPRIORITIZED") != "1" {
		order += "; where capability is 9.0 or 10.0 cuDNN comes first, unless TORCH_CUDNN_SDPA_DEPRIORITIZED=1"
	}
	d.line("attention", "%s", order)
	if err := d.noGraphs(); err != nil {
		d.line("CUDA graphs", "none: %v", err)
	} else {
		d.line("CUDA graphs", "libcgotorch_cuda is there")
	}
	return nil
}

func cudaVersion(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func (d *doctor) line(name, format string, args ...any) {
	fmt.Fprintf(d.out, "%-14s %s\n", name, fmt.Sprintf(format, args...))
}

// environment prints the variables that are set and affect what is found or how fast it runs.
func (d *doctor) environment() {
	for _, name := range []string{
		"LIBTORCH", "GOTRAINER_HOME", "GOTRAINER_LIB", "GOTRAINER_MALLOC", "GOTRAINER_MASKS", "GOTRAINER_AUTOGRAD",
		"GOTRAINER_REPRODUCIBLE", "GOTRAINER_MKL", "GOTRAINER_ADAPT_THREADS", "GOTRAINER_CHECK", "LD_LIBRARY_PATH",
		"LD_PRELOAD",
		"CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
		"CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
		"TORCH_CUDNN_SDPA_DEPRIORITIZED",
		"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS", "GOMAXPROCS", "ATEN_CPU_CAPABILITY",
		"MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA",
	} {
		if v := d.env(name); v != "" {
			d.line("environment", "%s=%s", name, v)
		}
	}
}

// launcher prints the launcher in the environment, and which process this is.
func (d *doctor) launcher() {
	l, err := dist.ReadLauncher(d.env)
	if err != nil {
		d.line("launcher", "%v", err)
		return
	}
	d.line("launcher", "%v", l)
}

// disk prints the size of the install root and the free space of its disk.
func (d *doctor) disk() {
	used := int64(0)
	err := filepath.WalkDir(d.root, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() {
			used += info.Size()
		}
		return err
	})
	if err != nil {
		d.line("install root", "%s: %v", d.root, err)
		return
	}
	d.line("install root", "%s: %d MB", d.root, used/1e6)
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.root, &st); err == nil {
		d.line("disk", "%d MB free", int64(st.Bavail)*int64(st.Bsize)/1e6)
	}
}

// compute multiplies, sums and differentiates on a device, and checks the result: for y = sum(x*w),
// x = [1 2; 3 4] and w = [5; 6], y = 17 + 39 and dy/dw = the column sums of x.
func compute(device torch.Device) error {
	var sum float64
	var gradient []float32
	err := torch.Try(func() {
		torch.Scope(func() {
			x := torch.From([]float32{1, 2, 3, 4}, 2, 2).ToDevice(device)
			w := torch.From([]float32{5, 6}, 2, 1).ToDevice(device).RequiresGrad()
			y := x.MatMul(w).Sum(torch.Float32)
			y.Backward()
			sum = y.Item()
			gradient = torch.Values[float32](w.Grad().ToDevice(torch.CPU))
		})
	})
	if err != nil {
		return err
	}
	if math.Abs(sum-56) > 1e-4 || len(gradient) != 2 || math.Abs(float64(gradient[0])-4) > 1e-4 ||
		math.Abs(float64(gradient[1])-6) > 1e-4 {
		return fmt.Errorf("computes wrongly: sum %v with gradient %v, expected 56 with [4 6]", sum, gradient)
	}
	return nil
}

// nvidiaDriver reads the driver's version from the file that its kernel module provides.
func nvidiaDriver() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(strings.TrimPrefix(first, "NVRM version:"))
}

// gpus returns the number of GPUs that libtorch can use; 0 without libtorch.
func gpus() int {
	if torch.Load() != nil {
		return 0
	}
	return torch.CUDADevices()
}
