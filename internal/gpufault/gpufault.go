// Package gpufault makes libtorch fail as it does on a GPU, on machines without one: an operator
// that the test selects throws an exception with the type, number and text of the GPU's libraries.
package gpufault

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// The types of exceptions.
const (
	Plain          = "Error"               // c10::Error, thrown by libraries and the driver
	Accelerator    = "AcceleratorError"    // thrown by the CUDA runtime, with its error number
	OutOfMemory    = "OutOfMemoryError"    // thrown by libtorch's allocator
	NotImplemented = "NotImplementedError" // there is no such kernel
	Standard       = "runtime_error"       // std::runtime_error, used where an error is passed on as text
)

// Fault is the error of an operator.
type Fault struct {
	Exception string
	Number    int // cudaError_t; only for [Accelerator]
	Text      string
}

// Short is the error of an allocator that is out of memory.
var Short = Fault{OutOfMemory, 0, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of " +
	"139.80 GiB of which 1.20 GiB is free."}

// After makes operators of the calling goroutine, including those in its backward passes, fail
// after n more calls: all of them, or only the first with once. The goroutine is locked to its
// thread until it calls stop, which it must, and which returns the number of operators called.
func (f Fault) After(n int, once bool) (stop func() int) {
	runtime.LockOSThread()
	torch.CallAny("gotrainer::fail_for_test", f.Exception, f.Number, f.Text, n, once)
	return func() int {
		defer runtime.UnlockOSThread()
		return int(torch.CallAny("gotrainer::calls_for_test")[0].(int64))
	}
}

// Never counts the operators of the calling goroutine without failing: see [Fault.After].
func Never() (stop func() int) { return Fault{Exception: Plain}.After(1<<60, true) }

// Called returns the number of operators called since the last After or Never.
func Called() int { return int(torch.CallAny("gotrainer::count_for_test")[0].(int64)) }

// Mend resets libtorch's memory of a failed GPU, as in a new process.
func Mend() { cgotorch.ThrowForTest(cgotorch.Mend) }
