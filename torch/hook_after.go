package torch

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// PostAccumulateGradHook is a hook registered with [Tensor.RegisterPostAccumulateGradHook].
type PostAccumulateGradHook struct {
	leaf   Tensor
	number int64
}

// RegisterPostAccumulateGradHook makes backward passes call f as soon as they have accumulated the
// gradient of t, a leaf that needs a gradient: Tensor.register_post_accumulate_grad_hook. While
// the pass still computes the gradients of other leaves, f may use the gradient, change t under
// [NoGrad] and free the gradient with SetGrad(Tensor{}). This is how an optimizer works layer by
// layer. f must not call Backward or Grad.
//
// f runs on the goroutine that called [Tensor.Backward], in its own [Scope] and without recording
// history. A panic in f ends the pass and continues in the caller. Hooks of one tensor run in the
// order in which they were registered. They stay until Remove, and keep t alive until then. It
// panics with [*Error] if t is not a leaf or does not need a gradient.
func (t Tensor) RegisterPostAccumulateGradHook(f func()) *PostAccumulateGradHook {
	const op = "RegisterPostAccumulateGradHook"
	if f == nil {
		panic(invalid(op, "the function must not be nil"))
	}
	forgetDeadNodes()
	h := &PostAccumulateGradHook{leaf: t, number: deferred.last.Add(1)}
	deferred.nodes.Store(h.number, backwardFunc(func(_, _, _ []Tensor, _ bool) []Tensor {
		NoGrad(f)
		return nil
	}))
	code := cgotorch.AddAfterGradient(t.ptr(op), h.number)
	runtime.KeepAlive(t.h)
	if code < 0 {
		deferred.nodes.Delete(h.number)
		fail(op, code, t)
	}
	deferred.count.Add(1)
	return h
}

// Remove removes the hook from its tensor. A second call does nothing.
func (h *PostAccumulateGradHook) Remove() {
	if h == nil || !h.leaf.Defined() {
		return
	}
	// If the tensor was freed, its hooks are gone already.
	if h.leaf.h.c != nil {
		check("PostAccumulateGradHook.Remove", cgotorch.RemoveAfterGradient(h.leaf.h.c, h.number))
		runtime.KeepAlive(h.leaf.h)
	}
	h.leaf = Tensor{}
	forgetDeadNodes()
}
