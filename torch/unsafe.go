package torch

import (
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// tensorAt turns the address that a cleanup carries back into a handle. The memory belongs to C, so
// the collector's rules for uintptr do not apply.
func tensorAt(address uintptr) cgotorch.Tensor {
	return *(*cgotorch.Tensor)(unsafe.Pointer(&address))
}

// Handle is t as cgotorch knows it, while t lives. It is for this module's packages that call
// cgotorch themselves, and panics in the name of op for a tensor that is undefined or freed.
func Handle(op string, t Tensor) cgotorch.Tensor { return t.ptr(op) }

// GeneratorHandle is the address of a generator, for packages that call cgotorch themselves; the
// caller keeps g alive.
func GeneratorHandle(op string, g *Generator) cgotorch.Generator { return g.ptr(op) }
