package cgotorch

// #include <stdlib.h>
// #include "load.h"
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"
)

// Graph is the address of a CUDA graph. [HasGraphs] must be true for all that is done with it.
type Graph = unsafe.Pointer

// Pool is a c10::MempoolId_t; the zero value stands for one that is made for a graph.
type Pool struct{ First, Second uint64 }

// graphsName is the file name of the library of what needs CUDA's headers.
func graphsName() string { return "libcgotorch_cuda-" + ABI + librarySuffix() }

// loadGraphs opens it beside the shim, whose libtorch_cuda is loaded.
func loadGraphs(dir string) error {
	path := filepath.Join(dir, graphsName())
	if !fileExists(path) {
		return fmt.Errorf("there is no %s in %s: make setup CUDA=1, or gotrainer install --cuda, builds it where CUDA's "+
			"headers are", graphsName(), dir)
	}
	return LoadGraphs(path)
}

// LoadGraphs opens a libcgotorch_cuda. [Load] does so where libtorch's CUDA libraries are loaded;
// elsewhere it serves nothing but the test that it can be opened.
func LoadGraphs(path string) error {
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	if message := C.ct_load_graphs(c); message != nil {
		defer C.free(unsafe.Pointer(message))
		return errors.New("cannot load " + path + ": " + C.GoString(message))
	}
	return nil
}

// HasGraphs tells whether there is a libcgotorch_cuda, or [PretendGraphs] was called.
func HasGraphs() bool { return C.ct_has_graphs() != 0 }

// NoGraphs is why there are none where libtorch uses GPUs.
func (l Loaded) NoGraphs() error { return l.noGraphs }

// PretendGraphs is for tests: graphs of a CPU, which src/recorder.cc records and replays, in place
// of CUDA's.
func PretendGraphs(on bool) {
	pretended = on
	C.ct_pretend_graphs(boolean(on))
}

var pretended bool

// GraphsPretended tells whether the graphs are a CPU's.
func GraphsPretended() bool { return pretended }

// NewGraph makes a graph of a GPU that FreeGraph frees.
func NewGraph(index int, out *Graph) Code { return Code(C.ct_new_graph(C.int32_t(index), out)) }

// RegisterGenerator has the draws of each replay continue where g is.
func RegisterGenerator(graph Graph, g Generator) Code {
	return Code(C.ct_register_generator(graph, C.ct_generator(g)))
}

// BeginCapture records what this thread computes from now on.
func BeginCapture(graph Graph, pool *Pool) Code {
	return Code(C.ct_begin_capture(graph, (*C.ct_pool)(unsafe.Pointer(pool))))
}

// EndCapture ends it, on the thread that has begun; failed drops what was recorded.
func EndCapture(graph Graph, failed bool) Code {
	return Code(C.ct_end_capture(graph, boolean(failed)))
}

// ReplayGraph computes what was recorded.
func ReplayGraph(graph Graph) Code { return Code(C.ct_replay_graph(graph)) }

// GraphPool is where its tensors lie.
func GraphPool(graph Graph, out *Pool) Code {
	return Code(C.ct_graph_pool(graph, (*C.ct_pool)(unsafe.Pointer(out))))
}

// ResetGraph forgets what was recorded.
func ResetGraph(graph Graph) Code { return Code(C.ct_reset_graph(graph)) }

// GraphAt is what a cleanup knows of a graph.
type GraphAt struct {
	Address  uintptr
	Recorded bool // it was made under [PretendGraphs]
}

// FreeGraph frees it, whether pretended graphs are still asked for or not.
func FreeGraph(g GraphAt) {
	C.ct_free_graph(*(*Graph)(unsafe.Pointer(&g.Address)), boolean(g.Recorded))
}

// SetSyncDebugMode says what becomes of calls that wait for the GPU: 0 nothing, 1 a warning, 2 an
// error.
func SetSyncDebugMode(mode int) Code { return Code(C.ct_set_sync_debug_mode(C.int32_t(mode))) }

// SyncDebugMode reads it.
func SyncDebugMode(mode *int32) Code { return Code(C.ct_sync_debug_mode((*C.int32_t)(mode))) }

// Places tells where the memory of each tensor is; an odd number is that of one that requires a
// gradient.
func Places(ts []Tensor, out []int64) {
	if len(ts) > 0 {
		C.ct_places(handles(ts), C.int64_t(len(ts)), (*C.int64_t)(&out[0]))
	}
}

// SetGrads gives each tensor its gradient; nil removes it.
func SetGrads(ts, grads []Tensor) Code {
	return Code(C.ct_set_grads(handles(ts), handles(grads), C.int64_t(len(ts))))
}
