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
