package torch

import (
	"runtime"
	"slices"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// List is a fixed list of tensors. The operations of an optimizer process all of them in one call,
// no matter how many there are. Tensors of a List must not be freed while it is in use.
type List struct {
	tensors []Tensor
	raw     []cgotorch.Tensor
}

// NewList makes a List. The tensors must outlive any scope, as parameters and optimizer states do.
func NewList(ts ...Tensor) *List {
	return &List{tensors: slices.Clone(ts), raw: required("NewList", ts)}
}

// Len returns the number of tensors.
func (l *List) Len() int { return len(l.tensors) }

// Tensors returns the tensors; the slice must not be changed.
func (l *List) Tensors() []Tensor { return l.tensors }

// alive panics if a tensor of the list is undefined or has been freed in the meantime.
func (l *List) alive(op string) {
	for i, t := range l.tensors {
		if t.h == nil || t.h.c != l.raw[i] {
			panic(t.misuse(op))
		}
	}
}

func (l *List) run(op string, code cgotorch.Code, more ...*List) {
	if code < 0 {
		fail(op, code, l.tensors[:min(len(l.tensors), 4)]...)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(more)
}

// states returns the handles of other, and panics unless it is a list parallel to l.
func (l *List) states(op, what string, other *List) []cgotorch.Tensor {
	if other == nil {
		panic(invalid(op, "the list %s is nil; want one tensor for each of the %d parameters", what, len(l.raw)))
	}
	if len(other.raw) != len(l.raw) {
		panic(invalid(op, "%d %s were given for %d parameters", len(other.raw), what, len(l.raw)))
	}
	other.alive(op)
	return other.raw
}

// Grads returns the gradients, undefined for tensors without one.
func (l *List) Grads() []Tensor {
	l.alive("Grads")
	out := make([]cgotorch.Tensor, len(l.raw))
	code := cgotorch.Grads(l.raw, out)
	l.run("Grads", code)
	grads := make([]Tensor, len(out))
	for i, c := range out {
		grads[i] = wrap(c, code)
	}
	return grads
}

// SetGrads sets the gradient of each tensor; an undefined one removes it. It panics unless there
// is one gradient for each tensor, of the same shape.
func (l *List) SetGrads(grads []Tensor) {
	const op = "SetGrads"
	l.alive(op)
	if len(grads) != len(l.raw) {
		panic(invalid(op, "%d gradients were given for %d parameters", len(grads), len(l.raw)))
	}
	l.run(op, cgotorch.SetGrads(l.raw, pointers(op, grads)))
	runtime.KeepAlive(grads)
}

// Places returns numbers that say where the memory of each tensor is and whether the tensor
// requires a gradient. They stay the same as long as neither changes. It does not wait for the
// device.
func (l *List) Places() []int64 {
	l.alive("Places")
	out := make([]int64, len(l.raw))
	cgotorch.Places(l.raw, out)
	runtime.KeepAlive(l)
	return out
}

// ZeroGrad removes all gradients, or sets them to zero if setToZero is true.
func (l *List) ZeroGrad(setToZero bool) {
	l.alive("ZeroGrad")
	l.run("ZeroGrad", cgotorch.ZeroGrad(l.raw, !setToZero))
}

// ClipGradNorm limits the total norm of the gradients to maxNorm and returns the norm before
// clipping: torch.nn.utils.clip_grad_norm_ with foreach. Unlike in PyTorch, all gradients must be
// on one device. It does not wait for the device.
func (l *List) ClipGradNorm(maxNorm, normType float64) Tensor {
	return l.norm("ClipGradNorm", maxNorm, normType, true)
}

// GradNorm returns the total norm of the gradients: torch.nn.utils.get_total_norm. All gradients
// must be on one device. It does not wait for the device.
func (l *List) GradNorm(normType float64) Tensor { return l.norm("GradNorm", 0, normType, false) }

func (l *List) norm(op string, maxNorm, normType float64, scale bool) Tensor {
	l.alive(op)
	if len(l.raw) == 0 {
		return Zeros([]int64{}...)
	}
	var total cgotorch.Tensor
	code := cgotorch.ClipGradNorm(l.raw, maxNorm, normType, scale, &total)
	l.run(op, code)
	return wrap(total, code)
}

// ClipGradValue limits every element of the gradients to [-value, value]:
// torch.nn.utils.clip_grad_value_.
func (l *List) ClipGradValue(value float64) {
	l.alive("ClipGradValue")
	l.run("ClipGradValue", cgotorch.ClipGradValue(l.raw, value))
}

// FusedOptions are the settings of one fused optimizer step.
type FusedOptions struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64
	Momentum, Dampening                float64 // SGD
	LRDecay                            float64 // Adagrad
	AMSGrad                            bool    // Adam: needs maxExpAvgSqs
	Maximize                           bool
	Nesterov                           bool // SGD
	Decoupled                          bool // Adam: weight decay as in AdamW
	FirstStep                          bool // SGD: momentum buffers have no history yet

	// FoundInf is a float32 tensor without dimensions on the device of the tensors: found_inf of
	// torch.amp. If its value is 1, the step is skipped, without waiting for the device. If it is
	// undefined, the step is always made.
	FoundInf Tensor
}

func (o FusedOptions) raw(foundInf cgotorch.Tensor) *cgotorch.OptimizerOptions {
	return &cgotorch.OptimizerOptions{FoundInf: foundInf,
		LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, WeightDecay: o.WeightDecay, Momentum: o.Momentum,
		Dampening: o.Dampening, LRDecay: o.LRDecay,
		AMSGrad: o.AMSGrad, Maximize: o.Maximize, Nesterov: o.Nesterov, Decoupled: o.Decoupled,
	}
}

// FusedAdam updates the tensors of l that have a gradient by one step of Adam or AdamW in one
// kernel. The other lists run parallel to l. steps are float32 tensors without dimensions, and
// maxExpAvgSqs may be nil without AMSGrad. States have the shapes of their tensors; a state whose
// memory order differs from its tensor's is put into that order.
func (l *List) FusedAdam(expAvgs, expAvgSqs, maxExpAvgSqs, steps *List, o FusedOptions) {
	const op = "FusedAdam"
	l.alive(op)
	m, v, s := l.states(op, "expAvgs", expAvgs), l.states(op, "expAvgSqs", expAvgSqs), l.states(op, "steps", steps)
	var x []cgotorch.Tensor
	if o.AMSGrad {
		x = l.states(op, "maxExpAvgSqs", maxExpAvgSqs)
	}
	code := cgotorch.FusedAdam(l.raw, m, v, x, s, o.raw(o.FoundInf.optional(op)))
	l.run(op, code, expAvgs, expAvgSqs, maxExpAvgSqs, steps)
	runtime.KeepAlive(o.FoundInf.h)
}

// FusedAdagrad updates the tensors of l that have a gradient by one step of Adagrad in one kernel.
// It works on the CPU only. The other lists are as in [List.FusedAdam].
func (l *List) FusedAdagrad(sums, steps *List, o FusedOptions) {
	const op = "FusedAdagrad"
	l.alive(op)
	sum, s := l.states(op, "sums", sums), l.states(op, "steps", steps)
	l.run(op, cgotorch.FusedAdagrad(l.raw, sum, s, o.raw(o.FoundInf.optional(op))), sums, steps)
	runtime.KeepAlive(o.FoundInf.h)
}

// FusedSGD updates the tensors of l that have a gradient by one step of SGD in one kernel.
// momentumBuffers are like the states of [List.FusedAdam], and may be nil without momentum.
func (l *List) FusedSGD(momentumBuffers *List, o FusedOptions) {
	const op = "FusedSGD"
	l.alive(op)
	var b []cgotorch.Tensor
	if o.Momentum != 0 {
		b = l.states(op, "momentumBuffers", momentumBuffers)
	}
	l.run(op, cgotorch.FusedSGD(l.raw, b, o.FirstStep, o.raw(o.FoundInf.optional(op))), momentumBuffers)
	runtime.KeepAlive(o.FoundInf.h)
}
