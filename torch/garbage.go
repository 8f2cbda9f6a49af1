package torch

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// live counts the tensors of all open scopes, made those of scopes that have ended and all that the
// garbage collector was given.
var live, made atomic.Int64

// collected counts the tensors that the garbage collector owns. It sees their handles, a few bytes
// each, but not their memory, so too much of that triggers a collection.
var collected garbage

type garbage struct {
	count, bytes atomic.Int64
	limit        atomic.Int64 // bytes at which the next collection is triggered
	lock         sync.Mutex   // one collection at a time
}

// garbageBudget is how much memory may wait for the garbage collector before it is called.
const garbageBudget = 256 << 20

// owned is what a handle needs while the garbage collector owns it.
type owned struct {
	cleanup runtime.Cleanup
	bytes   int64 // as counted, whatever becomes of the tensor's size later
}

// garbageTensor is what a cleanup carries: anything but the handle itself.
type garbageTensor struct {
	address uintptr
	bytes   int64
}

// collect gives h to the garbage collector.
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

// release frees a tensor that nothing refers to any more.
func (g *garbage) release(t garbageTensor) {
	g.count.Add(-1)
	g.bytes.Add(-t.bytes)
	cgotorch.FreeTensor(tensorAt(t.address))
}

// relieve runs a collection unless another goroutine has just done so. The next one comes when the
// memory has doubled, as with Go's own heap; those who make tensors wait meanwhile.
func (g *garbage) relieve() {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.bytes.Load() <= max(g.limit.Load(), garbageBudget) {
		return
	}
	g.sweep()
	g.limit.Store(2 * g.bytes.Load())
}

// sweep runs a collection and waits for its cleanups, which run afterwards in goroutines of their
// own.
func (g *garbage) sweep() {
	runtime.GC()
	cleanups := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(cleanups)
	queued := cleanups[0].Value.Uint64()
	for range 10000 { // a second, in case other cleanups of the program never end
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

// reclaim is called after a failed operator. If memory was short it frees what it can and asks for
// one more try.
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
