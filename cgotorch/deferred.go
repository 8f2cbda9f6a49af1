package cgotorch

// #include "load.h"
// #cgo noescape ct_retain_grad
// #cgo nocallback ct_retain_grad
// #cgo noescape ct_add_hook
// #cgo nocallback ct_add_hook
// #cgo noescape ct_hook_results
// #cgo nocallback ct_hook_results
// #cgo noescape ct_swap_anomaly
// #cgo nocallback ct_swap_anomaly
// #cgo noescape ct_defer
// #cgo nocallback ct_defer
// #cgo noescape ct_add_after_gradient
// #cgo nocallback ct_add_after_gradient
// #cgo noescape ct_remove_after_gradient
// #cgo nocallback ct_remove_after_gradient
// #cgo noescape ct_dead_nodes
// #cgo nocallback ct_dead_nodes
// #cgo noescape ct_start_backward
// #cgo nocallback ct_start_backward
// #cgo noescape ct_next_request
// #cgo nocallback ct_next_request
// #cgo noescape ct_answer
// #cgo nocallback ct_answer
// #cgo noescape ct_finish_backward
// #cgo nocallback ct_finish_backward
// #cgo noescape ct_stop_profiler
// #cgo nocallback ct_stop_profiler
import "C"

import "unsafe"

// --- autograd.cc: hooks and switches

// RetainGrad makes backward passes keep the gradient of a non-leaf tensor.
func RetainGrad(t Tensor) Code { return Code(C.ct_retain_grad(t)) }

// RetainsGrad reports whether RetainGrad was called.
func RetainsGrad(t Tensor) bool { return C.ct_retains_grad(t) != 0 }

// HookOptions say what a hook does with each gradient, in the order of the fields.
type HookOptions struct {
	RecordNorm, RecordGradient bool
	Scale                      float64
	Scaled                     bool
	ClipNorm, ClipValue        float64
}

// AddHook registers a hook on t and makes a handle that FreeHook frees.
func AddHook(t Tensor, o HookOptions, hook *unsafe.Pointer) Code {
	c := C.ct_hook_options{
		scale: C.double(o.Scale), clip_norm: C.double(o.ClipNorm), clip_value: C.double(o.ClipValue),
		scaled: C.int8_t(boolean(o.Scaled)), record_norm: C.int8_t(boolean(o.RecordNorm)),
		record_gradient: C.int8_t(boolean(o.RecordGradient)),
	}
	return Code(C.ct_add_hook(t, &c, hook))
}

// HookResults writes the last gradient and, if takeNorms is set, the norms recorded since they were
// last taken, as one tensor; nil if there are none.
func HookResults(hook unsafe.Pointer, takeNorms bool, norms, gradient *Tensor) Code {
	return Code(C.ct_hook_results(hook, boolean(takeNorms), norms, gradient))
}

// FreeHook frees the handle of a hook. With remove set, it also removes the hook from its tensor,
// if that still exists.
func FreeHook(hook unsafe.Pointer, remove bool) { C.ct_free_hook(hook, boolean(remove)) }

// SwapAnomaly sets anomaly detection for the whole process and returns the previous settings.
func SwapAnomaly(on, checkNaN bool) (formerOn, formerCheck bool) {
	a, b := boolean(on), boolean(checkNaN)
	C.ct_swap_anomaly(&a, &b)
	return a != 0, b != 0
}

// --- deferred.cc

// The kinds of node whose backward is written in Go.
const (
	FunctionNode   = int32(C.CT_NODE_FUNCTION)
	CheckpointNode = int32(C.CT_NODE_CHECKPOINT)
)

// Session is a backward pass that sends requests to Go for nodes whose backward is Go code.
type Session = unsafe.Pointer

// Request is a request of a backward pass. Node 0 means that the pass is over.
type Request struct {
	Node                       int64
	GradMode                   bool
	Inputs, Outputs, Gradients []Tensor // new references
}

// Defer adds a node with the given inputs to the graph and writes outputs, as results of that node,
// to results.
func Defer(node int64, kind int32, inputs, outputs, results []Tensor) Code {
	return Code(C.ct_defer(C.int64_t(node), C.int32_t(kind), handles(inputs), C.int64_t(len(inputs)), handles(outputs),
		C.int64_t(len(outputs)), handles(results)))
}

// AddAfterGradient makes backward passes send a request for node after each accumulation into the
// gradient of the leaf t. The request has the leaf as its only input, and the answer has no
// tensors.
func AddAfterGradient(t Tensor, node int64) Code {
	return Code(C.ct_add_after_gradient(t, C.int64_t(node)))
}

// RemoveAfterGradient undoes AddAfterGradient. It does nothing if the node was not added.
func RemoveAfterGradient(t Tensor, node int64) Code {
	return Code(C.ct_remove_after_gradient(t, C.int64_t(node)))
}

// DeadNodes writes the numbers of nodes that no graph refers to any more, each once, and returns
// how many it wrote.
func DeadNodes(nodes []int64) int {
	return int(C.ct_dead_nodes(ints(nodes), C.int64_t(len(nodes))))
}

// StartBackward starts a backward pass: that of Backward without inputs, that of GradOf with
// inputs. FinishBackward must follow on the same thread.
func StartBackward(outputs, gradients, inputs []Tensor, retainGraph, createGraph, allowUnused bool,
	session *Session) Code {
	return Code(C.ct_start_backward(handles(outputs), C.int64_t(len(outputs)), handles(gradients), handles(inputs),
		C.int64_t(len(inputs)),
		boolean(retainGraph), boolean(createGraph), boolean(allowUnused), session))
}

// NextRequest waits until the pass sends a request or is over.
func NextRequest(session Session, out *Request) Code {
	var c C.ct_request
	code := Code(C.ct_next_request(session, &c))
	if code < 0 {
		return code
	}
	*out = Request{Node: int64(c.node), GradMode: c.grad_mode != 0}
	if out.Node != 0 {
		out.Inputs, out.Outputs, out.Gradients = take(c.inputs), take(c.outputs), take(c.gradients)
	}
	return code
}

func take(l C.ct_tensor_list) []Tensor {
	return (&TensorList{unsafe.Pointer(l.items), int64(l.count)}).Take()
}

// Answer answers the request; a non-empty failure ends the pass.
func Answer(session Session, tensors []Tensor, failure string) {
	C.ct_answer(session, handles(tensors), C.int64_t(len(tensors)), text(failure), C.int64_t(len(failure)))
}

// FinishBackward frees the session once the pass is over and writes the gradients of its inputs to
// out. It fails if the pass failed.
func FinishBackward(session Session, out []Tensor) Code {
	return Code(C.ct_finish_backward(session, handles(out)))
}

// --- profiler.cc

// StartProfiler starts recording the operators of the calling thread.
func StartProfiler(shapes, memory bool) Code {
	return Code(C.ct_start_profiler(boolean(shapes), boolean(memory)))
}

// StopProfiler stops recording and writes the trace to a file.
func StopProfiler(path string) Code {
	return Code(C.ct_stop_profiler(text(path), C.int64_t(len(path))))
}
