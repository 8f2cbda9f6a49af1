package torch

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// live counts the tensors of all open scopes. made counts the tensors of scopes that have ended and
// all tensors that the garbage collector was ever given.
var live, made atomic.Int64

// collected counts the tensors that the garbage collector owns. The collector sees only their
// handles of a few bytes, not their memory, so a collection is triggered explicitly when that
// memory grows too large.
var collected garbage

type garbage struct {
	count, bytes atomic.Int64
	limit        atomic.Int64 // bytes at which the next collection is triggered
	lock         sync.Mutex   // one collection at a time
}

// garbageBudget is how much memory may wait for the garbage collector before a collection is
// triggered.
const garbageBudget = 256 << 20

// owned is what a handle needs while the garbage collector owns it.
type owned struct {
	cleanup runtime.Cleanup
	bytes   int64 // as added to the counter; the tensor's size may change later
}

// garbageTensor is the argument of a cleanup, which must not refer to the handle itself.
type garbageTensor struct {
	address uintptr
	bytes   int64
}

// collect hands h over to the garbage collector.
func collect(h *handle) {
	o := &owned{bytes: cgotorch.GetFacts(h.c).Bytes}
	o.cleanup = runtime.AddCleanup(h, collected.release, garbageTensor{uintptr(h.c), o.bytes})
	h.owned = o
	collected.count.Add(1)
	made.Add(1)
	if collected.bytes.Add(o.bytes) > max(collected.limit.Load(), garbageBudget) {
		collected.relieve()
	}
}

// release frees a tensor whose handle has become unreachable.
func (g *garbage) release(t garbageTensor) {
	g.count.Add(-1)
	g.bytes.Add(-t.bytes)
	cgotorch.FreeTensor(tensorAt(t.address))
}

// relieve runs a collection unless another goroutine has just done so. As with Go's own heap, the
// next one is due when the remaining memory has doubled. Goroutines that create tensors wait
// meanwhile.
func (g *garbage) relieve() {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.bytes.Load() <= max(g.limit.Load(), garbageBudget) {
		return
	}
	g.sweep()
	g.limit.Store(2 * g.bytes.Load())
}

// sweep runs a collection and waits for its cleanups, which run afterwards in separate goroutines.
func (g *garbage) sweep() {
	runtime.GC()
	cleanups := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(cleanups)
	queued := cleanups[0].Value.Uint64()
	for range 10000 { // about a second at most, in case other cleanups of the program never finish
		if cleanups[1].Value.Uint64() >= queued {
			return
		}
		time.Sleep(100 * time.Microsecond)
		metrics.Read(cleanups)
	}
}

// EmptyCache frees what the garbage collector can free and returns the GPU memory that libtorch
// holds for later use: torch.cuda.empty_cache. It takes time and slows down the operators that
// follow. There is no need to call it after running out of memory: operators do so themselves.
func EmptyCache() {
	load("EmptyCache")
	collected.sweep()
	check("EmptyCache", cgotorch.EmptyCache())
}

// reclaim is called after an operator has failed. If memory was short, it frees what it can and
// returns true: try again.
func reclaim(code cgotorch.Code) bool {
	if code.Kind() != cgotorch.ErrOutOfMemory {
		return false
	}
	code.Take()
	collected.sweep()
	if code := cgotorch.EmptyCache(); code < 0 {
		code.Take()
	}
	return true
}
