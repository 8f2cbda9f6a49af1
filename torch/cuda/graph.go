package cuda

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// Graph is work on a GPU that is recorded once and then replayed by a single launch, which saves
// the time the host spends on each operator: torch.cuda.CUDAGraph.
//
//	x := torch.TensorOptions{Device: d}.Zeros(32, 784).Keep() // filled again before each replay
//	for range 3 { ... } // warm-up: libraries choose kernels
//	g := cuda.NewGraph(d)
//	g.Capture(cuda.CaptureOptions{}, func() { y = model.Forward(x).Keep() })
//	x.Copy_(batch)
//	g.Replay() // y holds the result
//
// A replay does exactly what was recorded, whatever the host would do now: the same kernels, on
// the same memory, with the same values from the host (rates, sizes, branches taken). Whatever
// changes between replays must be in tensors that were made before the capture and are changed in
// place. Random numbers continue from replay to replay as if nothing had been captured. Only one
// goroutine at a time may use a Graph.
//
// Source: https://docs.pytorch.org/docs/2.11/notes/cuda.html#cuda-graphs.
type Graph struct {
	device   torch.Device
	c        cgotorch.Graph
	at       cgotorch.GraphAt
	captured bool
	cleanup  runtime.Cleanup
}

// Pool is the memory pool from which the tensors of captures are allocated: a pool handle of
// PyTorch. The zero value means that the graph has its own.
type Pool struct{ c cgotorch.Pool }

// CaptureOptions are the options of [Graph.Capture].
type CaptureOptions struct {
	// Pool is a pool to share with another graph: the value of that graph's [Graph.Pool]. Graphs of
	// one pool must not be replayed at the same time, and one may overwrite results of another in
	// tensors that are no longer used.
	Pool Pool
	// Generators are the generators that f draws from, besides the GPU's default one.
	Generators []*torch.Generator
}

// NewGraph makes an empty graph. It is freed by the garbage collector or by [Graph.Free]. It
// panics if d is not a usable GPU or if libcgotorch_cuda is missing.
func NewGraph(d torch.Device) *Graph {
	const op = "NewGraph"
	needGraphs(op, d)
	g := &Graph{device: d}
	check(op, cgotorch.NewGraph(d.Index(), &g.c))
	g.at = cgotorch.GraphAt{Address: uintptr(g.c), Recorded: cgotorch.GraphsPretended()}
	g.cleanup = runtime.AddCleanup(g, cgotorch.FreeGraph, g.at)
	return g
}

// needGraphs panics if this installation does not support CUDA graphs on d.
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

// Capture records the work that f gives the GPU: torch.cuda.graph. Nothing is computed before the
// first [Graph.Replay]. f runs on its own stream and must not wait for the GPU (read a number
// back, copy from memory that is not pinned, synchronize). Tensors made by f and used afterwards
// must be kept; every replay writes into them. Before it starts, Capture waits for all of the
// GPU's work and releases the memory that libtorch holds for later use.
//
// If f panics, Capture panics with the same value. If f does what cannot be captured, it panics
// with torch.ErrNotSupported. In both cases the graph is empty, the random number generators are
// as they were before, and the program may continue. However, graphs captured before that draw
// from the same generators no longer advance them: capture those graphs again.
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
			code.Take() // f's own panic is more informative
		}
	}()
	f()
	g.captured = true
}

// Replay queues the recorded work on the current stream. The host does not wait.
func (g *Graph) Replay() {
	const op = "Graph.Replay"
	check(op, cgotorch.ReplayGraph(g.filled(op)))
	runtime.KeepAlive(g)
}

// Pool returns the pool of the captured graph, for another graph to share: CUDAGraph.pool. It
// panics if the graph is empty, because its pool is gone.
func (g *Graph) Pool() (p Pool) {
	const op = "Graph.Pool"
	check(op, cgotorch.GraphPool(g.filled(op), &p.c))
	runtime.KeepAlive(g)
	return p
}

// Reset discards what was recorded and releases its memory once no tensor uses it:
// CUDAGraph.reset. The graph may then be captured again.
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

// filled returns the handle of a graph that has been captured, and panics if it is empty.
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

// SyncDebug says what happens on calls that make the host wait for a GPU.
type SyncDebug int

const (
	SyncAllowed SyncDebug = iota
	SyncWarned            // a line on standard error for each
	SyncRefused           // each panics
)

// SetSyncDebugMode sets the mode for the whole process, to find what makes a program wait:
// torch.cuda.set_sync_debug_mode. It panics if there is no GPU.
func SetSyncDebugMode(mode SyncDebug) {
	const op = "SetSyncDebugMode"
	needGraphs(op, torch.CUDA(0))
	if mode < SyncAllowed || mode > SyncRefused {
		panic(torch.Errorf("cuda."+op, torch.ErrValue, "the mode is %d; want SyncAllowed, SyncWarned or SyncRefused",
			int(mode)))
	}
	check(op, cgotorch.SetSyncDebugMode(int(mode)))
}

// SyncDebugMode returns the current mode.
func SyncDebugMode() SyncDebug {
	const op = "SyncDebugMode"
	needGraphs(op, torch.CUDA(0))
	var mode int32
	check(op, cgotorch.SyncDebugMode(&mode))
	return SyncDebug(mode)
}
