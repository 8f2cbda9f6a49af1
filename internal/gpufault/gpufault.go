// Package gpufault has libtorch fail as it does on a GPU, on machines without one: an operator of
// the test's choice throws an exception of the type, number and text that the GPU's libraries give.
package gpufault

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// The types of exceptions.
const (
	Plain          = "Error"               // c10::Error: libraries and the driver
	Accelerator    = "AcceleratorError"    // of the CUDA runtime, with its number
	OutOfMemory    = "OutOfMemoryError"    // of libtorch's allocator
	NotImplemented = "NotImplementedError" // there is no such kernel
	Standard       = "runtime_error"       // std::runtime_error: what passes an error on as text
)

// Fault is what an operator fails with.
type Fault struct {
	Exception string
	Number    int // cudaError_t; only of [Accelerator]
	Text      string
}

// Short is the fault of an allocator that has no memory left.
var Short = Fault{OutOfMemory, 0, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of " +
	"139.80 GiB of which 1.20 GiB is free."}

// After lets the operators of the calling goroutine, those of its backward passes among them, fail
// once n more have been called: all that follow, or with once only the first. The goroutine is
// pinned to its thread until stop, which it has to call, ends that and tells how many were called.
func (f Fault) After(n int, once bool) (stop func() int) {
	runtime.LockOSThread()
	torch.CallAny("gotrainer::fail_for_test", f.Exception, f.Number, f.Text, n, once)
	return func() int {
		defer runtime.UnlockOSThread()
		return int(torch.CallAny("gotrainer::calls_for_test")[0].(int64))
	}
}

// Never counts the operators of the calling goroutine without a fault: see [Fault.After].
func Never() (stop func() int) { return Fault{Exception: Plain}.After(1<<60, true) }

// Called is how many operators were called since the last After or Never.
func Called() int { return int(torch.CallAny("gotrainer::count_for_test")[0].(int64)) }

// Mend forgets that a GPU has failed, as a new process would know of none.
func Mend() { cgotorch.ThrowForTest(cgotorch.Mend) }
