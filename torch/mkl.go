package torch

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/osthread"
)

// MKL, inside libtorch, checks whether the CPU is made by Intel, and does not use its best kernels
// on other CPUs: on an AMD, products of float32 matrices run at half speed. Where those kernels
// help, the check is therefore made to succeed (cgotorch/src/mkl_intel.c), and a product is
// verified before they are used. The choice is not based on a measurement at load time, because
// results must not depend on timing.

// MKLKernels says which kernels MKL uses.
type MKLKernels struct {
	Intel  bool   // MKL uses its kernels for Intel CPUs, whatever this CPU is; otherwise it chooses by itself
	Reason string // "this CPU is AMD's", "GOTRAINER_MKL is native"
}

// String returns a description such as "Intel's: this CPU is AMD's".
func (k MKLKernels) String() string {
	if k.Intel {
		return "Intel's: " + k.Reason
	}
	return "its own choice: " + k.Reason
}

// mklVariable is the environment variable that decides: native or intel.
const mklVariable = "GOTRAINER_MKL"

// mklChoice is the decision made before libtorch is loaded, and the reason for it.
type mklChoice struct {
	how    cgotorch.MKL
	reason string
}

// mkl is the choice of this process.
var mkl mklChoice

func chooseMKL(arch string, reproducible, amd bool, env func(string) string) (mklChoice, *Error) {
	switch value := env(mklVariable); value {
	case "":
	case "intel":
		if arch != "amd64" {
			return mklChoice{}, &Error{Op: "Load", Code: ErrValue, Msg: fmt.Sprintf("%s is intel: there is no MKL on %s; "+
				"unset it", mklVariable, arch)}
		}
		return mklChoice{cgotorch.IntelMKL, mklVariable + " is intel"}, nil
	case "native":
		return mklChoice{cgotorch.NativeMKL, mklVariable + " is native"}, nil
	default:
		return mklChoice{}, &Error{Op: "Load", Code: ErrValue, Msg: fmt.Sprintf("%s is %q: want intel, native, which leaves "+
			"MKL to itself, or nothing", mklVariable, value)}
	}
	if arch != "amd64" {
		return mklChoice{cgotorch.NativeMKL, "there is no MKL on " + arch}, nil
	}
	if reproducible {
		return mklChoice{cgotorch.IntelMKL, "numbers are reproducible"}, nil
	}
	for _, name := range []string{"MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS"} {
		if env(name) != "" {
			return mklChoice{cgotorch.NativeMKL, name + " is set"}, nil
		}
	}
	if amd {
		return mklChoice{cgotorch.IntelMKLIfThere, "this CPU is AMD's"}, nil
	}
	return mklChoice{cgotorch.NativeMKL, "this CPU is not AMD's"}, nil
}

// fastAMD reports whether this is an AMD CPU with the instructions that MKL's kernels for Intel
// CPUs need.
func fastAMD() bool { return cgotorch.IsAMD() && hasAVX2() }

// kernels describes the outcome of the choice; intel says whether the kernels for Intel CPUs are in
// use.
func (c mklChoice) kernels(intel bool) MKLKernels {
	if c.how == cgotorch.IntelMKLIfThere && !intel {
		c.reason = "libcgotorch_mkl is not installed"
	}
	return MKLKernels{Intel: intel, Reason: c.reason}
}

// The sizes of checkMKL's matrices. They span several blocks of any kernel and take 2 million
// multiplications.
const checkRows, checkInner, checkColumns = 96, 160, 128

// checkMKL multiplies two matrices of small integers, whose product is exact, and verifies the
// result with Freivalds' algorithm: it compares product·w with a·(b·w).
func checkMKL(multiply func(product, a, b []float32)) *Error {
	number := uint32(1)
	draw := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			number = number*1664525 + 1013904223
			list[i] = float32(number>>16%7) - 3
		}
		return list
	}
	times := func(matrix, vector []float32) []float32 {
		result := make([]float32, len(matrix)/len(vector))
		for i := range matrix {
			result[i/len(vector)] += matrix[i] * vector[i%len(vector)]
		}
		return result
	}
	a, b, w := draw(checkRows*checkInner), draw(checkInner*checkColumns), draw(checkColumns)
	product := make([]float32, checkRows*checkColumns)
	multiply(product, a, b)
	if !slices.Equal(times(product, w), times(a, times(b, w))) {
		return &Error{Op: "Load", Code: ErrNotSupported, Msg: "MKL's kernels for Intel's CPUs multiply wrongly on " +
			"this one: set " + mklVariable + "=native in the environment, and please report the CPU"}
	}
	return nil
}

func multiplyByMKL(product, a, b []float32) {
	done := make(chan error)
	osthread.Brief(func() {
		done <- Try(func() {
			Scope(func() { CopyTo(product, From(a, checkRows, checkInner).MatMul(From(b, checkInner, checkColumns))) })
		})
	})
	if err := <-done; err != nil {
		panic(err)
	}
}
