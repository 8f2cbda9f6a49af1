package torch

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/cpu"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// ReproducibleVariable is the environment variable with the same effect as [Reproducible]. Its
// value is the number of threads.
const ReproducibleVariable = "GOTRAINER_REPRODUCIBLE"

// reproducible holds the requested setting before libtorch is loaded, and the setting in effect
// afterwards.
var reproducible struct {
	sync.Mutex
	threads int  // 0 means not requested
	loaded  bool // libtorch has read the environment
}

// Reproducible makes the process compute the same bits on every x86-64 CPU with AVX2, Intel or
// AMD, with the given number of threads per operator; in float64 some roots differ on AMD. PyTorch
// promises this at most for a single machine. ATen, oneDNN and MKL then use their AVX2 code paths,
// whatever the environment says; MKL does so on AMD too. GOTRAINER_REPRODUCIBLE=1 in the
// environment has the same effect as Reproducible(1).
//
// libtorch reads its settings once, when it is loaded, so call Reproducible before the first
// tensor is made, such as at the beginning of main. After that it returns an error, unless the
// process is already reproducible with that many threads. It also returns an error on other CPUs
// and for threads < 1.
//
// It applies to CPUs only, and to a fixed number of threads: a different number, for instance one
// set by [SetThreads], changes the last bits. docs/reproducible.md describes the costs and the
// limits.
func Reproducible(threads int) error {
	if threads < 1 {
		return &Error{Op: "Reproducible", Code: ErrValue,
			Msg: fmt.Sprintf("the number of threads must be positive, not %d", threads)}
	}
	reproducible.Lock()
	defer reproducible.Unlock()
	if reproducible.loaded {
		if reproducible.threads == threads {
			return nil
		}
		return &Error{Op: "Reproducible", Code: ErrInvalid, Msg: fmt.Sprintf("libtorch is loaded already, %s, and "+
			"reads its settings only then: call torch.Reproducible(%d) before the first tensor, or set %s=%d in the "+
			"environment", describe(reproducible.threads), threads, ReproducibleVariable, threads)}
	}
	if reason := pin(threads); reason != "" {
		return &Error{Op: "Reproducible", Code: ErrNotSupported, Msg: reason}
	}
	reproducible.threads = threads
	return nil
}

// hasAVX2 reports whether the CPU has the instructions that AVX2 kernels use, including FMA.
func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

// missingInstructions returns the reason why libtorch cannot run on this CPU, or the empty string
// if it can. Its binaries for Linux on ARM use atomic instructions without checking whether the CPU
// has them, and SIGILL would kill the process in its first layer.
func missingInstructions(goos, goarch string, atomics bool) string {
	if goos != "linux" || goarch != "arm64" || atomics {
		return ""
	}
	return "libtorch for Linux on ARM needs a CPU with the atomic instructions of ARMv8.1 (atomics in /proc/cpuinfo), " +
		"such as a Cortex-A76 or a Neoverse N1, which this one lacks, as a Cortex-A72 does"
}

func describe(threads int) string {
	if threads == 0 {
		return "without reproducible numbers"
	}
	return fmt.Sprintf("with numbers that are reproducible with threads = %d", threads)
}

// pin selects the code paths by setting environment variables that libtorch will read. If that is
// not possible, it returns the reason.
func pin(threads int) (reason string) {
	if runtime.GOOS != "linux" || !hasAVX2() {
		return fmt.Sprintf("reproducible numbers need Linux on an x86-64 CPU with AVX2 and FMA, which this %s on %s is "+
			"not; without %s, and without asking for them in the program, it computes the numbers of its own kind",
			runtime.GOOS, runtime.GOARCH, ReproducibleVariable)
	}
	n := strconv.Itoa(threads)
	for name, value := range map[string]string{
		"ATEN_CPU_CAPABILITY": "avx2",
		"ONEDNN_MAX_CPU_ISA":  "AVX2",
		"MKL_CBWR":            "AVX2",
		"OMP_NUM_THREADS":     n,
		"MKL_NUM_THREADS":     n,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err.Error()
		}
	}
	return ""
}

// open loads libtorch with the settings requested by Reproducible or the environment.
func open() (cgotorch.Loaded, *Error) {
	reproducible.Lock()
	defer reproducible.Unlock()
	if value := os.Getenv(ReproducibleVariable); value != "" && value != "0" && reproducible.threads == 0 {
		threads, err := strconv.Atoi(value)
		if err != nil || threads < 1 {
			return cgotorch.Loaded{}, &Error{Op: "Load", Code: ErrValue, Msg: fmt.Sprintf("%s is %q: want the number "+
				"of threads of one operator, such as 1, or 0 for numbers that need not be reproducible",
				ReproducibleVariable, value)}
		}
		if reason := pin(threads); reason != "" {
			return cgotorch.Loaded{}, &Error{Op: "Load", Code: ErrNotSupported,
				Msg: fmt.Sprintf("%s is %s: %s", ReproducibleVariable, value, reason)}
		}
		reproducible.threads = threads
	}
	if reason := missingInstructions(runtime.GOOS, runtime.GOARCH, cpu.ARM64.HasATOMICS); reason != "" {
		return cgotorch.Loaded{}, &Error{Op: "Load", Code: ErrNotSupported, Msg: reason}
	}
	var refused *Error
	if mkl, refused = chooseMKL(runtime.GOARCH, reproducible.threads > 0, fastAMD(), os.Getenv); refused != nil {
		return cgotorch.Loaded{}, refused
	}
	opened, err := cgotorch.Load(mkl.how)
	if err != nil {
		return opened, &Error{Op: "Load", Code: ErrNotInstalled, Msg: err.Error()}
	}
	reproducible.loaded = true
	if reproducible.threads > 0 {
		cgotorch.SetThreads(reproducible.threads) // needed if OpenMP was loaded before libtorch
	}
	return opened, nil
}
