package torch

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// libtorch cannot call Go code, so a graph node whose backward is a Go function stores only a
// number, and the function is kept here. If there are such nodes, a backward pass runs on a thread
// of libtorch's own, and the goroutine that started the pass serves its requests to run those
// functions.
var deferred struct {
	nodes sync.Map // number to backwardFunc
	count atomic.Int64
	last  atomic.Int64
}

// backwardFunc is the backward of one node. Its results are passed on to libtorch unchanged.
type backwardFunc func(inputs, outputs, gradients []Tensor, gradMode bool) []Tensor

// newNode adds a node to the graph whose backward is f. It returns outputs as results of that node,
// with inputs as its inputs.
func newNode(op string, kind int32, f backwardFunc, inputs, outputs []Tensor) []cgotorch.Tensor {
	forgetDeadNodes()
	number := deferred.last.Add(1)
	results := make([]cgotorch.Tensor, len(outputs))
	deferred.nodes.Store(number, f)
	deferred.count.Add(1)
	code := cgotorch.Defer(number, kind, pointers(op, inputs), pointers(op, outputs), results)
	runtime.KeepAlive(inputs)
	runtime.KeepAlive(outputs)
	if code < 0 {
		fail(op, code, inputs...)
	}
	return results
}

// forgetDeadNodes deletes the functions of nodes that no graph refers to any more.
func forgetDeadNodes() {
	if deferred.count.Load() == 0 {
		return
	}
	var dead [64]int64
	for {
		n := cgotorch.DeadNodes(dead[:])
		for _, number := range dead[:n] {
			deferred.nodes.Delete(number)
		}
		deferred.count.Add(-int64(n))
		if n < len(dead) {
			return
		}
	}
}

// pass runs a backward pass: that of Backward if inputs is nil, that of Grad otherwise.
func pass(roots, gradients, inputs []cgotorch.Tensor, retainGraph, createGraph, allowUnused bool,
	out []cgotorch.Tensor) cgotorch.Code {
	forgetDeadNodes()
	switch {
	case deferred.count.Load() > 0:
		return session(roots, gradients, inputs, retainGraph, createGraph, allowUnused, out)
	case inputs == nil:
		return cgotorch.Backward(roots, gradients, retainGraph, createGraph)
	}
	return cgotorch.GradOf(roots, gradients, inputs, retainGraph, createGraph, allowUnused, out)
}

// session runs a backward pass that may request calls of Go functions.
func session(roots, gradients, inputs []cgotorch.Tensor, retainGraph, createGraph, allowUnused bool,
	out []cgotorch.Tensor) cgotorch.Code {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var s cgotorch.Session
	if code := cgotorch.StartBackward(roots, gradients, inputs, retainGraph, createGraph, allowUnused, &s); code < 0 {
		return code
	}
	ended := false
	defer func() {
		if ended {
			return
		}
		// A Go function panicked. libtorch has been told that its node failed; the pass must end
		// before the panic propagates.
		for ask(s, func(*cgotorch.Request) { cgotorch.Answer(s, nil, "the pass has failed") }) {
		}
		if code := cgotorch.FinishBackward(s, out); code < 0 {
			code.Take()
		}
	}()
	for ask(s, func(r *cgotorch.Request) { serve(s, r) }) {
	}
	ended = true
	return cgotorch.FinishBackward(s, out)
}

// ask waits for the next request of the pass and answers it. It returns false when the pass is
// over.
func ask(s cgotorch.Session, answer func(*cgotorch.Request)) bool {
	var r cgotorch.Request
	if code := cgotorch.NextRequest(s, &r); code < 0 {
		_, message := code.Take()
		cgotorch.Answer(s, nil, message)
		return true
	}
	if r.Node == 0 {
		return false
	}
	answer(&r)
	return true
}

// serve runs the function of the node that r names, in a scope of its own.
func serve(s cgotorch.Session, r *cgotorch.Request) {
	answered := false
	defer func() {
		if !answered {
			cgotorch.Answer(s, nil, "the Go code of this node panicked")
		}
	}()
	Scope(func() {
		slot := cgotorch.Code(currentSlot())
		take := func(handles []cgotorch.Tensor) []Tensor {
			ts := make([]Tensor, len(handles))
			for i, c := range handles {
				ts[i] = wrap(c, slot)
			}
			return ts
		}
		inputs, outputs, gradients := take(r.Inputs), take(r.Outputs), take(r.Gradients)
		f, ok := deferred.nodes.Load(r.Node)
		var results []Tensor
		switch {
		case ok:
			results = f.(backwardFunc)(inputs, outputs, gradients, r.GradMode)
		case len(r.Outputs)+len(r.Gradients) > 0:
			panic(&Error{Op: "Backward", Code: ErrInternal, Msg: "a node of the graph is not known"})
		default: // a post-accumulate hook that an earlier hook of the same leaf has removed
		}
		cgotorch.Answer(s, pointers("Backward", results), "")
		answered = true
		runtime.KeepAlive(results)
	})
}

// inOwnScope runs f in its own scope, then registers the handles that f returned with the enclosing
// scope.
func inOwnScope(f func() []cgotorch.Tensor) []Tensor {
	var handles []cgotorch.Tensor
	Scope(func() { handles = f() })
	slot := cgotorch.Code(currentSlot())
	results := make([]Tensor, len(handles))
	for i, c := range handles {
		results[i] = wrap(c, slot)
	}
	return results
}

// retained takes a reference to each of ts, so that they outlive their scope.
func retained(op string, ts []Tensor) []cgotorch.Tensor {
	handles := pointers(op, ts)
	for _, c := range handles {
		if c != nil {
			cgotorch.Retain(c)
		}
	}
	runtime.KeepAlive(ts)
	return handles
}
