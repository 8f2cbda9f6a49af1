package torch

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/osthread"
)

// MKL, inside libtorch, asks whether the CPU is Intel's. On others it leaves its best kernels out:
// an AMD multiplies float32 matrices at half of its speed. So the question is answered with yes
// where it helps (cgotorch/src/mkl_intel.c), and a product is checked before anyone uses one. What
// is faster is not measured at load: bits must not depend on a clock.

// MKLKernels says which kernels MKL uses.
type MKLKernels struct {
	Intel  bool   // those for Intel CPUs, whoever made this one; otherwise MKL chooses
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

// mklChoice is what was decided before libtorch is loaded, and why.
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

// fastAMD reports whether this is a CPU of AMD's that has what MKL's kernels for Intel's need.
func fastAMD() bool { return cgotorch.IsAMD() && hasAVX2() }

// kernels is what came of the choice.
func (c mklChoice) kernels(intel bool) MKLKernels {
	if c.how == cgotorch.IntelMKLIfThere && !intel {
		c.reason = "libcgotorch_mkl is not installed"
	}
	return MKLKernels{Intel: intel, Reason: c.reason}
}

// The sides of the matrices of checkMKL: several blocks of any kernel, and 2 million products.
const checkRows, checkInner, checkColumns = 96, 160, 128

// checkMKL has two matrices of small whole numbers multiplied, whose product is exact, and compares
// product·w with a·(b·w), Freivalds's check.
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
