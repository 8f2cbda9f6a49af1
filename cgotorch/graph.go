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

// Graph is the address of a CUDA graph. The functions for graphs need [HasGraphs].
type Graph = unsafe.Pointer

// Pool is a c10::MempoolId_t; the zero value makes a graph create its own pool.
type Pool struct{ First, Second uint64 }

// graphsName returns the file name of the library with the code that needs CUDA's headers.
func graphsName() string { return "libcgotorch_cuda-" + ABI + librarySuffix() }

// loadGraphs opens that library, which is in the same folder as the shim. libtorch_cuda must be
// loaded.
func loadGraphs(dir string) error {
	path := filepath.Join(dir, graphsName())
	if !fileExists(path) {
		return fmt.Errorf("there is no %s in %s: make setup CUDA=1, or gotrainer install --cuda, builds it where CUDA's "+
			"headers are", graphsName(), dir)
	}
	return LoadGraphs(path)
}

// LoadGraphs opens a libcgotorch_cuda. [Load] does so if it loads libtorch's CUDA libraries.
// Without them, it only serves a test that the library can be opened.
func LoadGraphs(path string) error {
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	if message := C.ct_load_graphs(c); message != nil {
		defer C.free(unsafe.Pointer(message))
		return errors.New("cannot load " + path + ": " + C.GoString(message))
	}
	return nil
}

// HasGraphs reports whether libcgotorch_cuda is loaded or [PretendGraphs] was called.
func HasGraphs() bool { return C.ct_has_graphs() != 0 }

// NoGraphs returns the reason why CUDA graphs are not available although libtorch uses GPUs.
func (l Loaded) NoGraphs() error { return l.noGraphs }

// PretendGraphs replaces CUDA graphs by graphs of the CPU, which src/recorder.cc records and
// replays. It is for tests.
func PretendGraphs(on bool) {
	pretended = on
	C.ct_pretend_graphs(boolean(on))
}

var pretended bool

// GraphsPretended reports whether [PretendGraphs] is in effect.
func GraphsPretended() bool { return pretended }

// NewGraph makes a graph on a GPU, which FreeGraph frees.
func NewGraph(index int, out *Graph) Code { return Code(C.ct_new_graph(C.int32_t(index), out)) }

// RegisterGenerator makes replays draw from g, each continuing from the current state of g.
func RegisterGenerator(graph Graph, g Generator) Code {
	return Code(C.ct_register_generator(graph, C.ct_generator(g)))
}

// BeginCapture starts recording the work of the calling thread.
func BeginCapture(graph Graph, pool *Pool) Code {
	return Code(C.ct_begin_capture(graph, (*C.ct_pool)(unsafe.Pointer(pool))))
}

// EndCapture stops recording, on the same thread. If failed is true, the recording is discarded.
func EndCapture(graph Graph, failed bool) Code {
	return Code(C.ct_end_capture(graph, boolean(failed)))
}

// ReplayGraph runs the recorded work.
func ReplayGraph(graph Graph) Code { return Code(C.ct_replay_graph(graph)) }

// GraphPool returns the memory pool of the graph's tensors.
func GraphPool(graph Graph, out *Pool) Code {
	return Code(C.ct_graph_pool(graph, (*C.ct_pool)(unsafe.Pointer(out))))
}

// ResetGraph discards the recorded work.
func ResetGraph(graph Graph) Code { return Code(C.ct_reset_graph(graph)) }

// GraphAt identifies a graph in a cleanup.
type GraphAt struct {
	Address  uintptr
	Recorded bool // made under [PretendGraphs]
}

// FreeGraph frees a graph of either kind, whether or not [PretendGraphs] is still in effect.
func FreeGraph(g GraphAt) {
	C.ct_free_graph(*(*Graph)(unsafe.Pointer(&g.Address)), boolean(g.Recorded))
}

// SetSyncDebugMode sets how calls that wait for the GPU are handled: 0 allows them, 1 warns, 2
// makes them fail.
func SetSyncDebugMode(mode int) Code { return Code(C.ct_set_sync_debug_mode(C.int32_t(mode))) }

// SyncDebugMode reads the mode set by SetSyncDebugMode.
func SyncDebugMode(mode *int32) Code { return Code(C.ct_sync_debug_mode((*C.int32_t)(mode))) }

// Places writes a number for the memory address of each tensor; it is odd if the tensor requires a
// gradient.
func Places(ts []Tensor, out []int64) {
	if len(ts) > 0 {
		C.ct_places(handles(ts), C.int64_t(len(ts)), (*C.int64_t)(&out[0]))
	}
}

// SetGrads sets the gradient of each tensor; nil removes it.
func SetGrads(ts, grads []Tensor) Code {
	return Code(C.ct_set_grads(handles(ts), handles(grads), C.int64_t(len(ts))))
}
