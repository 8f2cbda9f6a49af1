package torch

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/cgotorch"
)

var (
	loadOnce sync.Once
	loadErr  *Error
	loaded   cgotorch.Loaded
	ready    atomic.Bool
)

// Load loads libtorch, which otherwise happens when the first tensor is made. It returns nil if
// libtorch is loaded already. Call it first in a program that should fail early, with an error
// instead of a panic.
//
// The goroutine that loads libtorch stays on its OS thread, as Python's main thread does. Each
// thread that computes has its own team of threads for its operators. If all of them together are
// more than there are CPUs, they sleep after every operator, and an update of a small model takes
// nearly twice as long. A program that makes and trains its model on one goroutine has one team.
//
// These environment variables are read before libtorch starts:
//
//	GOTRAINER_LIB=DIR         the folder of the shim, instead of the usual places
//	GOTRAINER_HOME=DIR        the folder of the installation, one of these places: [InstallRoot]
//	LIBTORCH=DIR              another libtorch 2.11 (its lib folder), such as the one inside a Python installation
//	GOTRAINER_MALLOC=trim     leave glibc's malloc as it is; by default it keeps large blocks for the next step,
//	                          and all threads share one arena unless MALLOC_ARENA_MAX is set
//	GOTRAINER_MASKS=native    leave dropout masks to libtorch; by default AVX2 draws them where libtorch draws one
//	                          number after the other: the same masks in a seventh of the time
//	GOTRAINER_AUTOGRAD=native leave linear and cross_entropy_loss to libtorch; by default each is one node of
//	                          autograd on a CPU: the same bits, and a tenth less time for a small model
//	GOTRAINER_REPRODUCIBLE=N  the same bits on every CPU with AVX2, with N threads: [Reproducible]
//	GOTRAINER_MKL=native      let MKL choose its kernels; by default it uses its kernels for Intel CPUs on AMD CPUs
//	                          with AVX2 too, which are faster and differ in the last bits, unless MKL_CBWR is set.
//	                          With intel it uses them on every CPU: [MKLKernels]
//	OMP_WAIT_POLICY=active    how the threads within an operator wait for each other (active or passive), or
//	GOMP_SPINCOUNT=N          how often they look before they sleep; a value that is set is kept. By default they
//	                          wait actively, and passively while other programs use the CPUs: [Waiting]
//	GOTRAINER_ADAPT_THREADS=1 operators use fewer threads while other programs use the CPUs: [AdaptThreads]
//	GOTRAINER_CHECK=1         keep freed tensors for a second, see [CheckUse]
func Load() error {
	loadOnce.Do(func() {
		before, measured := readUsage()
		if loaded, loadErr = open(); loadErr != nil {
			return
		}
		startWaiting(before, measured)
		if os.Getenv("GOTRAINER_MALLOC") != "trim" {
			cgotorch.TuneMalloc()
		}
		if os.Getenv("GOTRAINER_MASKS") != "native" {
			cgotorch.TuneBernoulli()
		}
		if os.Getenv("GOTRAINER_CHECK") == "1" {
			CheckUse(true)
		}
		switch value := os.Getenv(AdaptThreadsVariable); value {
		case "", "0":
		case "1":
			if loadErr = allowAdapting("Load"); loadErr != nil {
				return
			}
		default:
			loadErr = invalid("Load", "%s is %q: want 1 or 0", AdaptThreadsVariable, value)
			return
		}
		ready.Store(true)
		runtime.LockOSThread() // never unlocked
		if loaded.IntelMKL {
			if loadErr = checkMKL(multiplyByMKL); loadErr != nil {
				ready.Store(false)
			}
		}
	})
	if loadErr != nil {
		return loadErr
	}
	return nil
}

// load is called by every function that may be the first to use libtorch.
func load(op string) {
	if ready.Load() {
		return
	}
	if Load() != nil {
		panic(&Error{Op: op, Code: loadErr.Code, Msg: loadErr.Msg})
	}
}

// InstallRoot returns the per-user folder in which libtorch is looked for, and into which the
// gotrainer command installs it.
func InstallRoot() string { return cgotorch.InstallRoot() }

// Build describes the loaded libtorch.
type Build struct {
	Version       string     // of libtorch: "2.11.0"
	Library       string     // the path of gotrainer's shim
	LibTorch      string     // the folder of libtorch's libraries
	ABI           string     // identifies the shim's sources
	CPUCapability string     // the instruction set of the CPU kernels: "AVX2", "AVX512", "DEFAULT"
	Threads       int        // threads within one operator
	Waiting       WaitPolicy // how these threads wait for each other
	MKL           MKLKernels // the kernels of float32 and float64 products on the CPU
	CUDADevices   int
	NoCUDA        string // why there are no GPUs; empty if there are some
	Reproducible  int    // the number of threads for reproducible results, see [Reproducible]; 0 if they are not
	KeepsMalloc   bool   // large blocks stay with the process, see [Load]
	VectorMasks   bool   // dropout masks are drawn by vector instructions, see [Load]
	OwnGenerators bool   // threads can have their own generators, see [ForkRNG]
}

// BuildInfo loads libtorch and describes it.
func BuildInfo() (Build, error) {
	if err := Load(); err != nil {
		return Build{}, err
	}
	b := Build{
		Version: loaded.Version, Library: loaded.Library, LibTorch: loaded.LibTorch, ABI: cgotorch.ABI,
		CPUCapability: cgotorch.CPUCapability(), Threads: cgotorch.Threads(), CUDADevices: cgotorch.CUDADevices(),
		Reproducible: reproducible.threads, KeepsMalloc: os.Getenv("GOTRAINER_MALLOC") != "trim",
		VectorMasks: cgotorch.VectorBernoulli(), OwnGenerators: cgotorch.HasOwnGenerators(),
		Waiting: Waiting(), MKL: mkl.kernels(loaded.IntelMKL),
	}
	if b.CUDADevices == 0 {
		b.NoCUDA = noGPU()
	}
	return b, nil
}

// SetThreads sets how many threads one operator may use: torch.set_num_threads. The default is one
// per physical core. It panics if n is not positive.
func SetThreads(n int) {
	load("SetThreads")
	if n < 1 {
		panic(invalid("SetThreads", "the number of threads must be positive, not %d", n))
	}
	cgotorch.SetThreads(n)
	restartWaiting(n)
}

// Threads returns how many threads one operator may currently use: the number set by [SetThreads],
// or fewer after [AdaptThreads].
func Threads() int {
	load("Threads")
	return cgotorch.Threads()
}

// UseDeterministicAlgorithms makes operators without a deterministic algorithm panic, or only
// warn: torch.use_deterministic_algorithms. It applies to the whole process.
func UseDeterministicAlgorithms(on, warnOnly bool) {
	load("UseDeterministicAlgorithms")
	check("UseDeterministicAlgorithms", cgotorch.SetDeterministic(on, warnOnly))
}

// SetFloat32MatmulPrecision sets the precision of float32 matrix products to "highest" (the
// default), "high" or "medium": torch.set_float32_matmul_precision. It applies to the whole
// process.
func SetFloat32MatmulPrecision(precision string) {
	load("SetFloat32MatmulPrecision")
	switch precision {
	case "highest", "high", "medium":
	default: // libtorch only warns
		panic(&Error{Op: "SetFloat32MatmulPrecision", Code: ErrValue,
			Msg: fmt.Sprintf("want \"highest\", \"high\" or \"medium\", found %q", precision)})
	}
	check("SetFloat32MatmulPrecision", cgotorch.SetFloat32Precision(precision))
}
