package cuda

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// Graph is work on a GPU that is recorded once and then replayed by one launch, without the time
// that the host takes for each operator: torch.cuda.CUDAGraph.
//
//	x := torch.TensorOptions{Device: d}.Zeros(32, 784).Keep() // filled again before each replay
//	for range 3 { ... } // warm-up: libraries choose kernels
//	g := cuda.NewGraph(d)
//	g.Capture(cuda.CaptureOptions{}, func() { y = model.Forward(x).Keep() })
//	x.Copy_(batch)
//	g.Replay() // y holds the result
//
// A replay does what was recorded, whatever the host would do now: the same kernels, on the same
// memory, with the same numbers of the host (rates, sizes, branches taken). What changes from
// replay to replay has to lie in tensors that were there before the capture and are changed in
// place. Random numbers continue from replay to replay as if nothing had been captured. One
// goroutine at a time uses a Graph.
//
// Source: https://docs.pytorch.org/docs/2.11/notes/cuda.html#cuda-graphs.
type Graph struct {
	device   torch.Device
	c        cgotorch.Graph
	at       cgotorch.GraphAt
	captured bool
	cleanup  runtime.Cleanup
}

// Pool is where the tensors of captures get their memory: a pool handle of PyTorch. The zero value
// stands for one of the graph's own.
type Pool struct{ c cgotorch.Pool }

// CaptureOptions are those of [Graph.Capture].
type CaptureOptions struct {
	// Pool is shared with the graph whose [Graph.Pool] it is. Graphs of one pool must not be
	// replayed at the same time, and what one leaves in tensors that nobody holds the other may
	// overwrite.
	Pool Pool
	// Generators are the ones that f draws from besides the default one of the GPU.
	Generators []*torch.Generator
}

// NewGraph makes an empty graph. The garbage collector frees it, or [Graph.Free]. It panics if d is
// no GPU that can be used, or if there is no libcgotorch_cuda.
func NewGraph(d torch.Device) *Graph {
	const op = "NewGraph"
	needGraphs(op, d)
	g := &Graph{device: d}
	check(op, cgotorch.NewGraph(d.Index(), &g.c))
	g.at = cgotorch.GraphAt{Address: uintptr(g.c), Recorded: cgotorch.GraphsPretended()}
	g.cleanup = runtime.AddCleanup(g, cgotorch.FreeGraph, g.at)
	return g
}

// needGraphs panics where graphs cannot be had.
func needGraphs(op string, d torch.Device) {
	loaded(op)
	if cgotorch.GraphsPretended() {
		return
	}
	need(op, d)
	if err := torch.NoGraphs(); err != nil {
		panic(torch.Errorf("cuda."+op, torch.ErrNotInstalled, "%v", err))
	}
}

// Capture records what f gives the GPU to do: torch.cuda.graph. Nothing of it is computed before
// the first [Graph.Replay]. f runs on a stream of its own and must not wait for the GPU (read a
// number back, copy from memory that is not pinned, synchronize); tensors that it makes and that
// are used afterwards are kept, and every replay writes into them. All that the GPU holds is waited
// for first, and memory that libtorch keeps for later is given back.
//
// It panics if f panics, with what f panics with, and if f did what cannot be captured
// (torch.ErrNotSupported); the graph is empty then, random numbers are where they were, and the
// program may continue. But graphs that were captured before and draw from the same generators no
// longer continue with them: capture them again.
func (g *Graph) Capture(o CaptureOptions, f func()) {
	const op = "Graph.Capture"
	defer runtime.KeepAlive(g)
	c := g.pointer(op)
	if g.captured {
		panic(torch.Errorf("cuda."+op, torch.ErrInvalid, "the graph was captured; Reset it first"))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, generator := range append([]*torch.Generator{torch.DefaultGenerator(g.device)}, o.Generators...) {
		check(op, cgotorch.RegisterGenerator(c, torch.GeneratorHandle(op, generator)))
		runtime.KeepAlive(generator)
	}
	check(op, cgotorch.BeginCapture(c, &o.Pool.c))
	defer func() {
		if code := cgotorch.EndCapture(c, !g.captured); g.captured {
			g.captured = code >= 0
			check(op, code)
		} else if code < 0 {
			code.Take() // what f panics with says more
		}
	}()
	f()
	g.captured = true
}

// Replay does what was recorded, on the current stream. The host does not wait.
func (g *Graph) Replay() {
	const op = "Graph.Replay"
	check(op, cgotorch.ReplayGraph(g.filled(op)))
	runtime.KeepAlive(g)
}

// Pool is the one that it was captured with, for another graph to share: CUDAGraph.pool. It panics
// if the graph is empty: its pool is gone.
func (g *Graph) Pool() (p Pool) {
	const op = "Graph.Pool"
	check(op, cgotorch.GraphPool(g.filled(op), &p.c))
	runtime.KeepAlive(g)
	return p
}

// Reset forgets what was recorded and gives its memory back once no tensor is there; the graph
// may be captured again: CUDAGraph.reset.
func (g *Graph) Reset() {
	const op = "Graph.Reset"
	check(op, cgotorch.ResetGraph(g.pointer(op)))
	runtime.KeepAlive(g)
	g.captured = false
}

// Free frees the graph now.
func (g *Graph) Free() {
	if g.c != nil {
		g.cleanup.Stop()
		cgotorch.FreeGraph(g.at)
		g.c, g.captured = nil, false
	}
}

// filled is the handle of a graph that holds something.
func (g *Graph) filled(op string) cgotorch.Graph {
	c := g.pointer(op)
	if !g.captured {
		panic(torch.Errorf("cuda."+op, torch.ErrInvalid, "the graph is empty; Capture something first"))
	}
	return c
}

func (g *Graph) pointer(op string) cgotorch.Graph {
	if g.c == nil {
		panic(torch.Errorf("cuda."+op, torch.ErrFreed, "the graph was freed"))
	}
	return g.c
}

// SyncDebug says what becomes of calls that make the host wait for a GPU.
type SyncDebug int

const (
	SyncAllowed SyncDebug = iota
	SyncWarned            // a line on standard error for each
	SyncRefused           // each panics
)

// SetSyncDebugMode says so for the whole process, to find what keeps a program waiting:
// torch.cuda.set_sync_debug_mode. It panics where there is no GPU.
func SetSyncDebugMode(mode SyncDebug) {
	const op = "SetSyncDebugMode"
	needGraphs(op, torch.CUDA(0))
	if mode < SyncAllowed || mode > SyncRefused {
		panic(torch.Errorf("cuda."+op, torch.ErrValue, "the mode is %d; want SyncAllowed, SyncWarned or SyncRefused",
			int(mode)))
	}
	check(op, cgotorch.SetSyncDebugMode(int(mode)))
}

// SyncDebugMode reads it.
func SyncDebugMode() SyncDebug {
	const op = "SyncDebugMode"
	needGraphs(op, torch.CUDA(0))
	var mode int32
	check(op, cgotorch.SyncDebugMode(&mode))
	return SyncDebug(mode)
}
