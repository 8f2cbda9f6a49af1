package torch

import (
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// tensorAt converts the address that a cleanup carries back into a handle. The memory belongs to C,
// so the rules about uintptr and the garbage collector do not apply.
func tensorAt(address uintptr) cgotorch.Tensor {
	return *(*cgotorch.Tensor)(unsafe.Pointer(&address))
}

// Handle returns cgotorch's handle of t, valid while t lives. It is for packages of this module
// that call cgotorch themselves. It panics in the name of op if the tensor is undefined or freed.
func Handle(op string, t Tensor) cgotorch.Tensor { return t.ptr(op) }

// GeneratorHandle returns the address of a generator, for packages that call cgotorch themselves.
// The caller must keep g alive.
func GeneratorHandle(op string, g *Generator) cgotorch.Generator { return g.ptr(op) }
