package torch

import (
	"runtime"
	"slices"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// RequiresGrad makes the leaf t record its history, so that backward passes compute its gradient:
// Tensor.requires_grad_(True). It returns t.
func (t Tensor) RequiresGrad() Tensor { return t.SetRequiresGrad(true) }

// SetRequiresGrad sets whether the leaf t gets a gradient: Tensor.requires_grad_. It returns t.
func (t Tensor) SetRequiresGrad(on bool) Tensor {
	if !on && !t.facts("SetRequiresGrad").IsLeaf {
		panic(&Error{Op: "SetRequiresGrad", Args: []string{t.describe()}, Code: ErrInvalid,
			Msg: "the tensor has a history; only leaves can be told not to require a gradient: use Detach"})
	}
	code := cgotorch.SetRequiresGrad(t.ptr("SetRequiresGrad"), on)
	if code < 0 {
		fail("SetRequiresGrad", code, t)
	}
	runtime.KeepAlive(t.h)
	return t
}

// NeedsGrad reports whether t gets a gradient or was computed from tensors that do:
// Tensor.requires_grad.
func (t Tensor) NeedsGrad() bool { return t.facts("NeedsGrad").RequiresGrad }

// Backward adds the gradients of t, which must have one element, to all leaves it was computed
// from: Tensor.backward.
func (t Tensor) Backward() { Backward(BackwardOptions{}, t) }

// BackwardOptions are the options of [Backward]. The zero value is PyTorch's default.
type BackwardOptions struct {
	Gradients   []Tensor // the gradients of the tensors; nil if all of them have one element
	RetainGraph bool     // keep the graph for another backward pass
	CreateGraph bool     // record the backward pass itself, for gradients of gradients
}

// Backward adds the gradients of ts to all leaves they were computed from: torch.autograd.backward.
func Backward(o BackwardOptions, ts ...Tensor) {
	list := required("Backward", ts)
	var gradients []cgotorch.Tensor
	if o.Gradients != nil {
		if len(o.Gradients) != len(ts) {
			panic(invalid("Backward", "%d gradients were given for %d tensors", len(o.Gradients), len(ts)))
		}
		gradients = required("Backward", o.Gradients)
	}
	if len(ts) == 0 {
		return
	}
	code := pass(list, gradients, nil, o.RetainGraph || o.CreateGraph, o.CreateGraph, false, nil)
	if code < 0 {
		fail("Backward", code, ts...)
	}
	runtime.KeepAlive(ts)
	runtime.KeepAlive(o.Gradients)
}

// Grad returns the gradient accumulated by backward passes, or the undefined tensor if there is
// none: Tensor.grad.
func (t Tensor) Grad() Tensor {
	in, out := [1]cgotorch.Tensor{t.ptr("Grad")}, [1]cgotorch.Tensor{}
	code := cgotorch.Grads(in[:], out[:])
	if code < 0 {
		fail("Grad", code, t)
	}
	runtime.KeepAlive(t.h)
	return wrap(out[0], code)
}

// SetGrad replaces the gradient; the undefined tensor removes it. It returns t.
func (t Tensor) SetGrad(grad Tensor) Tensor {
	if grad.Defined() {
		if a, b := t.info("SetGrad"), grad.info("SetGrad"); a.DType != b.DType || a.Device != b.Device ||
			!slices.Equal(a.Sizes, b.Sizes) {
			panic(&Error{Op: "SetGrad", Args: []string{t.describe(), grad.describe()}, Code: ErrInvalid,
				Msg: "a gradient has the shape, dtype and device of its tensor"})
		}
	}
	code := cgotorch.SetGrad(t.ptr("SetGrad"), grad.optional("SetGrad"))
	if code < 0 {
		fail("SetGrad", code, t, grad)
	}
	runtime.KeepAlive(t.h)
	runtime.KeepAlive(grad.h)
	return t
}

// GradOptions are the options of [Grad]. The zero value is PyTorch's default.
type GradOptions struct {
	Gradients   []Tensor // the gradients of the outputs; nil if all of them have one element
	RetainGraph bool     // keep the graph for another backward pass
	CreateGraph bool     // record the backward pass itself, for gradients of gradients
	AllowUnused bool     // an input that the outputs do not depend on gets an undefined gradient instead of an error
}

// Grad returns the gradients of the sum of outputs with respect to inputs. It does not touch the
// gradients of the leaves: torch.autograd.grad.
func Grad(outputs, inputs []Tensor, o GradOptions) []Tensor {
	var gradients []cgotorch.Tensor
	if o.Gradients != nil {
		if len(o.Gradients) != len(outputs) {
			panic(invalid("Grad", "%d gradients were given for %d outputs", len(o.Gradients), len(outputs)))
		}
		gradients = required("Grad", o.Gradients)
	}
	if len(outputs) == 0 || len(inputs) == 0 {
		panic(invalid("Grad", "want at least one output and one input, found %d and %d", len(outputs), len(inputs)))
	}
	out := make([]cgotorch.Tensor, len(inputs))
	code := pass(required("Grad", outputs), gradients, required("Grad", inputs), o.RetainGraph || o.CreateGraph,
		o.CreateGraph, o.AllowUnused, out)
	if code < 0 {
		fail("Grad", code, append(append([]Tensor{}, outputs...), inputs...)...)
	}
	runtime.KeepAlive(outputs)
	runtime.KeepAlive(inputs)
	runtime.KeepAlive(o.Gradients)
	grads := make([]Tensor, len(out))
	for i, c := range out {
		grads[i] = wrap(c, code)
	}
	return grads
}

// NoGrad runs f without recording history: torch.no_grad.
func NoGrad(f func()) { gradMode("NoGrad", false, f) }

// EnableGrad runs f with history recorded, even inside NoGrad: torch.enable_grad.
func EnableGrad(f func()) { gradMode("EnableGrad", true, f) }

func gradMode(op string, on bool, f func()) {
	load(op)
	runtime.LockOSThread()
	former := cgotorch.SwapGradMode(on)
	defer func() {
		cgotorch.SwapGradMode(former)
		runtime.UnlockOSThread()
	}()
	f()
}

// IsGradEnabled reports whether operators of this goroutine currently record history:
// torch.is_grad_enabled.
func IsGradEnabled() bool {
	load("IsGradEnabled")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	on := cgotorch.SwapGradMode(true)
	cgotorch.SwapGradMode(on)
	return on
}

// InferenceMode runs f without recording history and without the bookkeeping for it:
// torch.inference_mode. Tensors made in it can never become part of a history.
func InferenceMode(f func()) {
	load("InferenceMode")
	runtime.LockOSThread()
	guard := cgotorch.EnterInference()
	defer func() {
		cgotorch.LeaveInference(guard)
		runtime.UnlockOSThread()
	}()
	f()
}

// IsInferenceModeEnabled reports whether this goroutine is inside [InferenceMode].
func IsInferenceModeEnabled() bool {
	load("IsInferenceModeEnabled")
	return cgotorch.InferenceEnabled()
}
