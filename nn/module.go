package nn

import (
	"github.com/gotrainer/gotrainer/nn/internal/later"
	"github.com/gotrainer/gotrainer/torch"
)

// Layer is a module that maps one tensor to one tensor. [Sequential] chains layers.
type Layer interface {
	Forward(x torch.Tensor) torch.Tensor
}

// Mode says whether a module is in training mode, which it is until [SetTraining] changes it. A
// module whose Forward depends on the mode embeds a Mode.
type Mode struct{ evaluating bool }

// Training reports whether the module is in training mode.
func (m *Mode) Training() bool { return !m.evaluating }

// SetTraining switches only this module; the function [SetTraining] also reaches its children.
func (m *Mode) SetTraining(on bool) { m.evaluating = !on }

// ParamLister is a module with parameters that are not fields, because their number depends on its
// options. They are listed after the fields.
type ParamLister interface {
	OwnParams() []torch.Named
}

// ModuleLister is a module with children that are not fields, because their names depend on its
// options. They are listed after the fields. The tensors of a child without a name are named like
// those of the module itself.
type ModuleLister interface {
	OwnModules() []Named
}

// Parameter makes t a parameter: a tensor that outlives any scope and gets gradients. If t has a
// history, only its elements are used, as in torch.nn.Parameter. It panics if t is not of a
// floating-point type.
func Parameter(t torch.Tensor) torch.Tensor {
	if !t.IsLeaf() {
		t = t.Detach()
	}
	return later.Parameter(t).Keep().RequiresGrad()
}

// Buffer makes t a buffer: a tensor that belongs to a module, outlives any scope and gets no
// gradients.
func Buffer(t torch.Tensor) torch.Tensor {
	if t.NeedsGrad() {
		t = t.Detach()
	}
	return t.Keep()
}

// Dims are sizes along several dimensions, such as a kernel's. A single size applies to all
// dimensions.
type Dims = []int64

// deref returns *o, or the zero value, which means the defaults, if o is nil.
func deref[T any](o *T) T {
	if o == nil {
		return *new(T)
	}
	return *o
}

// mustBePositive panics if a size passed to a constructor is not positive.
func mustBePositive(op, name string, size int64) {
	if size < 1 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "%s must be positive, found %d", name, size))
	}
}
