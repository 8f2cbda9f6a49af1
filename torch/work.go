package torch

import (
	"runtime"
	"time"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// reduceOps maps the names that _c10d_functional uses to values of c10d::ReduceOp.
var reduceOps = map[string]int{"sum": 0, "product": 2, "min": 3, "max": 4}

// Work is a collective that has been started. Only one goroutine at a time may use it.
type Work struct {
	handle unsafe.Pointer // nil once it is complete
}

// StartAllReduce starts an in-place reduction of the values of t, which must be contiguous and on
// the CPU: torch.distributed.all_reduce with async_op. op is "sum", "product", "min" or "max". It
// succeeds only if all processes start one with the same number of elements and the same label.
// [Work.Wait] must be called.
func (g *ProcessGroup) StartAllReduce(t Tensor, op string, label uint32) *Work {
	const name = "StartAllReduce"
	number, ok := reduceOps[op]
	if !ok {
		panic(invalid(name, "there is no reduction %q; want sum, product, min or max", op))
	}
	w := &Work{}
	g.use(name, func(handle unsafe.Pointer) {
		if code := cgotorch.StartAllReduce(handle, t.ptr(name), number, label, &w.handle); code < 0 {
			fail(name, code, t)
		}
	})
	runtime.KeepAlive(t.h)
	return w
}

// WaitFor is like [Work.Wait] but waits at most for the given time, and reports whether the work
// is complete.
func (w *Work) WaitFor(limit time.Duration) bool { return w.wait(max(0, limit.Microseconds())) }

// Wait waits until the work is complete. If the work failed, the first call panics with its error.
func (w *Work) Wait() { w.wait(-1) }

func (w *Work) wait(microseconds int64) bool {
	if w.handle == nil {
		return true
	}
	done, code := cgotorch.WaitWork(w.handle, microseconds)
	if !done {
		return false
	}
	cgotorch.FreeWork(w.handle)
	w.handle = nil
	if code < 0 {
		fail("AllReduce", code)
	}
	return true
}
