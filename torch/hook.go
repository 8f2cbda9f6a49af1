package torch

import (
	"runtime"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// HookOptions say what a hook does with each gradient that reaches its tensor, in the order of the
// fields. A zero field skips its action.
type HookOptions struct {
	RecordNorm     bool     // record the 2-norm, for [Hook.Norms]
	RecordGradient bool     // keep a copy of the gradient, for [Hook.Gradient]
	Scale          *float64 // multiply the gradient by this factor
	ClipNorm       float64  // limit the gradient's 2-norm, as torch.nn.utils.clip_grad_norm_ does
	ClipValue      float64  // limit each element to [-ClipValue, ClipValue]
}

// Hook is a hook registered with [Tensor.RegisterHook].
type Hook struct {
	handle  unsafe.Pointer
	cleanup runtime.Cleanup
}

// RegisterHook registers a hook that observes or changes each gradient that reaches t during a
// backward pass: Tensor.register_hook. The hook runs inside libtorch, without waiting for the
// device; what it recorded is read later. Hooks run in the order in which they were registered. A
// hook stays with t even if the returned value is dropped. It panics if t does not need a
// gradient. To run arbitrary Go code, pass the tensor through a [Function].
func (t Tensor) RegisterHook(o HookOptions) *Hook {
	const op = "RegisterHook"
	if !(o.ClipNorm >= 0) || !(o.ClipValue >= 0) {
		panic(&Error{Op: op, Code: ErrValue, Msg: "ClipNorm and ClipValue must not be negative"})
	}
	c := cgotorch.HookOptions{RecordNorm: o.RecordNorm, RecordGradient: o.RecordGradient, ClipNorm: o.ClipNorm,
		ClipValue: o.ClipValue}
	if o.Scale != nil {
		c.Scale, c.Scaled = *o.Scale, true
	}
	h := &Hook{}
	code := cgotorch.AddHook(t.ptr(op), c, &h.handle)
	if code < 0 {
		fail(op, code, t)
	}
	runtime.KeepAlive(t.h)
	h.cleanup = runtime.AddCleanup(h, func(p uintptr) { cgotorch.FreeHook(unsafe.Pointer(tensorAt(p)), false) },
		uintptr(h.handle))
	return h
}

func (h *Hook) results(op string) (norms, gradient Tensor) {
	if h == nil || h.handle == nil {
		panic(&Error{Op: op, Code: ErrFreed, Msg: "the hook was removed; read it before"})
	}
	var n, g cgotorch.Tensor
	code := cgotorch.HookResults(h.handle, op == "Hook.Norms", &n, &g)
	check(op, code)
	runtime.KeepAlive(h)
	return wrap(n, code), wrap(g, code)
}

// Norms returns the 2-norms of the gradients since the last call, in order of arrival. It waits
// for the device.
func (h *Hook) Norms() []float64 {
	norms, gradient := h.results("Hook.Norms")
	gradient.Free()
	if !norms.Defined() {
		return nil
	}
	defer norms.Free()
	wide := norms.ToDType(Float64)
	defer wide.Free()
	return Values[float64](wide)
}

// Gradient returns the last gradient as it reached the hook, or the undefined tensor if there was
// none.
func (h *Hook) Gradient() Tensor {
	norms, gradient := h.results("Hook.Gradient")
	norms.Free()
	return gradient
}

// Remove removes the hook from its tensor. A second call does nothing.
func (h *Hook) Remove() {
	if h == nil || h.handle == nil {
		return
	}
	h.cleanup.Stop()
	cgotorch.FreeHook(h.handle, true)
	h.handle = nil
}

// RetainGrad makes backward passes keep the gradient of t, which is not a leaf, for [Tensor.Grad]:
// Tensor.retain_grad. It returns t.
func (t Tensor) RetainGrad() Tensor {
	code := cgotorch.RetainGrad(t.ptr("RetainGrad"))
	if code < 0 {
		fail("RetainGrad", code, t)
	}
	runtime.KeepAlive(t.h)
	return t
}

// RetainsGrad reports whether t is not a leaf but keeps its gradient: Tensor.retains_grad.
func (t Tensor) RetainsGrad() bool {
	on := cgotorch.RetainsGrad(t.ptr("RetainsGrad"))
	runtime.KeepAlive(t.h)
	return on
}

// DetectAnomaly runs f with anomaly detection: torch.autograd.detect_anomaly. A backward pass
// fails with the name of the first operator whose gradient contains a nan. The setting applies to
// the whole process and slows every backward pass down.
func DetectAnomaly(f func()) {
	load("DetectAnomaly")
	on, checkNaN := cgotorch.SwapAnomaly(true, true)
	defer cgotorch.SwapAnomaly(on, checkNaN)
	f()
}
