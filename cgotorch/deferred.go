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

// RetainGrad makes backward passes keep the gradient of a tensor that is no leaf.
func RetainGrad(t Tensor) Code { return Code(C.ct_retain_grad(t)) }

// RetainsGrad tells whether RetainGrad was called.
func RetainsGrad(t Tensor) bool { return C.ct_retains_grad(t) != 0 }

// HookOptions say what a hook does with each gradient, in this order.
type HookOptions struct {
	RecordNorm, RecordGradient bool
	Scale                      float64
	Scaled                     bool
	ClipNorm, ClipValue        float64
}

// AddHook registers a hook on t, whose handle FreeHook frees.
func AddHook(t Tensor, o HookOptions, hook *unsafe.Pointer) Code {
	c := C.ct_hook_options{
		scale: C.double(o.Scale), clip_norm: C.double(o.ClipNorm), clip_value: C.double(o.ClipValue),
		scaled: C.int8_t(boolean(o.Scaled)), record_norm: C.int8_t(boolean(o.RecordNorm)),
		record_gradient: C.int8_t(boolean(o.RecordGradient)),
	}
	return Code(C.ct_add_hook(t, &c, hook))
}

// HookResults writes the norms recorded since they were last taken, as one tensor, if takeNorms is
// set, and the last gradient; nil where there are none.
func HookResults(hook unsafe.Pointer, takeNorms bool, norms, gradient *Tensor) Code {
	return Code(C.ct_hook_results(hook, boolean(takeNorms), norms, gradient))
}

// FreeHook frees the handle of a hook, and with remove takes the hook from its tensor, if that is
// still there.
func FreeHook(hook unsafe.Pointer, remove bool) { C.ct_free_hook(hook, boolean(remove)) }

// SwapAnomaly sets anomaly detection for the whole process and returns what was set.
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

// Session is a backward pass that asks Go for the backward of such nodes.
type Session = unsafe.Pointer

// Request is what a pass asks; Node 0 means that it is over.
type Request struct {
	Node                       int64
	GradMode                   bool
	Inputs, Outputs, Gradients []Tensor // new references
}

// Defer makes outputs the results of a new node over inputs, and writes them into results.
func Defer(node int64, kind int32, inputs, outputs, results []Tensor) Code {
	return Code(C.ct_defer(C.int64_t(node), C.int32_t(kind), handles(inputs), C.int64_t(len(inputs)), handles(outputs),
		C.int64_t(len(outputs)), handles(results)))
}

// AddAfterGradient makes passes ask for node once they have added to the gradient of the leaf t;
// the request has the leaf as its one input, and needs an answer without tensors.
func AddAfterGradient(t Tensor, node int64) Code {
	return Code(C.ct_add_after_gradient(t, C.int64_t(node)))
}

// RemoveAfterGradient takes that back; it does nothing where there is none.
func RemoveAfterGradient(t Tensor, node int64) Code {
	return Code(C.ct_remove_after_gradient(t, C.int64_t(node)))
}

// DeadNodes writes the numbers of nodes that no graph holds any more, each once, and returns how
// many it wrote.
func DeadNodes(nodes []int64) int {
	return int(C.ct_dead_nodes(ints(nodes), C.int64_t(len(nodes))))
}

// StartBackward begins a pass: without inputs that of Backward, with inputs that of GradOf.
// FinishBackward must follow, on the same thread.
func StartBackward(outputs, gradients, inputs []Tensor, retainGraph, createGraph, allowUnused bool,
	session *Session) Code {
	return Code(C.ct_start_backward(handles(outputs), C.int64_t(len(outputs)), handles(gradients), handles(inputs),
		C.int64_t(len(inputs)),
		boolean(retainGraph), boolean(createGraph), boolean(allowUnused), session))
}

// NextRequest waits until the pass asks something or is over.
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

// Answer answers the request; a failure that is not empty ends the pass.
func Answer(session Session, tensors []Tensor, failure string) {
	C.ct_answer(session, handles(tensors), C.int64_t(len(tensors)), text(failure), C.int64_t(len(failure)))
}

// FinishBackward frees the session once the pass is over, writes the gradients of its inputs into
// out, and fails as the pass did.
func FinishBackward(session Session, out []Tensor) Code {
	return Code(C.ct_finish_backward(session, handles(out)))
}

// --- profiler.cc

// StartProfiler begins to record what the calling thread runs.
func StartProfiler(shapes, memory bool) Code {
	return Code(C.ct_start_profiler(boolean(shapes), boolean(memory)))
}

// StopProfiler ends the recording and writes it to a file.
func StopProfiler(path string) Code {
	return Code(C.ct_stop_profiler(text(path), C.int64_t(len(path))))
}
