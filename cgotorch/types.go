package cgotorch

// #include "load.h"
import "C"

import (
	"math"
	"unsafe"
)

// Tensor is a libtorch handle: the address of an at::TensorImpl, nil for an undefined tensor.
type Tensor = C.ct_tensor

// Generator is the address of an at::Generator; nil means libtorch's default one.
type Generator = C.ct_generator

// TensorList is a list of new tensors that C allocated; [TensorList.Take] converts it to a slice.
type TensorList struct {
	items unsafe.Pointer
	count int64
}

// Take copies the handles and frees the list.
func (l *TensorList) Take() []Tensor {
	out := make([]Tensor, l.count)
	copy(out, unsafe.Slice((*Tensor)(l.items), int(l.count)))
	C.ct_free_buffer(l.items)
	*l = TensorList{}
	return out
}

// The kinds of a [Scalar].
const (
	ScalarNone   = int64(C.CT_SCALAR_NONE)
	ScalarInt    = int64(C.CT_SCALAR_INT)
	ScalarDouble = int64(C.CT_SCALAR_DOUBLE)
	ScalarBool   = int64(C.CT_SCALAR_BOOL)
)

// Scalar is a number that keeps whether it is an integer, a floating-point number or a boolean.
// Bits holds the integer, or the bits of the float64. The zero value is None.
type Scalar struct {
	Bits int64
	Kind int64
}

// Double returns the Scalar for a float64.
func Double(v float64) Scalar { return Scalar{int64(math.Float64bits(v)), ScalarDouble} }

// Int returns the Scalar for an integer.
func Int(v int64) Scalar { return Scalar{v, ScalarInt} }

func (s Scalar) c() C.ct_scalar {
	return C.ct_scalar{bits: C.int64_t(s.Bits), kind: C.int64_t(s.Kind)}
}

// OptionalInt is an int64 or None.
type OptionalInt struct {
	Value   int64
	Present bool
}

func (o OptionalInt) c() C.ct_optional_int {
	return C.ct_optional_int{value: C.int64_t(o.Value), present: C.int64_t(boolean(o.Present))}
}

// OptionalDouble is a float64 or None.
type OptionalDouble struct {
	Value   float64
	Present bool
}

func (o OptionalDouble) c() C.ct_optional_double {
	return C.ct_optional_double{value: C.double(o.Value), present: C.int64_t(boolean(o.Present))}
}

func boolean(v bool) C.int32_t {
	if v {
		return 1
	}
	return 0
}

func ints(s []int64) *C.int64_t       { return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(s))) }
func handles(s []Tensor) *C.ct_tensor { return (*C.ct_tensor)(unsafe.Pointer(unsafe.SliceData(s))) }
func text(s string) *C.char           { return (*C.char)(unsafe.Pointer(unsafe.StringData(s))) }

// optionalLen returns the length of an optional list, or -1 for nil, which means None.
func optionalLen(s []int64) C.int64_t {
	if s == nil {
		return -1
	}
	return C.int64_t(len(s))
}
