package torch

import "fmt"

// DType is the type of a tensor's elements. The zero value means an operator's default, which is
// float32 for new tensors.
type DType int8

// The element types, under PyTorch's names. Their order follows c10::ScalarType.
const (
	DefaultDType DType = iota
	Uint8
	Int8
	Int16
	Int32
	Int64
	Float16
	Float32
	Float64
	Complex32
	Complex64
	Complex128
	Bool
	_
	_
	_
	BFloat16
)

// lastDType is the last element type that libtorch 2.11 defines. Those that have no name here print
// as numbers.
const lastDType DType = 46

// code returns libtorch's number of the type, -1 for the default. It panics if there is no such
// type, because libtorch does not check.
func (d DType) code() int32 {
	if d < 0 || d > lastDType {
		panic(&Error{Op: "DType", Code: ErrType, Msg: fmt.Sprintf("there is no element type number %d", d)})
	}
	return int32(d) - 1
}

func dtypeOf(code int32) DType { return DType(code + 1) }

// String returns PyTorch's name: "float32".
func (d DType) String() string {
	switch d {
	case DefaultDType:
		return "default"
	case Uint8:
		return "uint8"
	case Int8:
		return "int8"
	case Int16:
		return "int16"
	case Int32:
		return "int32"
	case Int64:
		return "int64"
	case Float16:
		return "float16"
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Complex32:
		return "complex32"
	case Complex64:
		return "complex64"
	case Complex128:
		return "complex128"
	case Bool:
		return "bool"
	case BFloat16:
		return "bfloat16"
	}
	return fmt.Sprintf("dtype(%d)", int32(d)-1)
}

// Size returns the size of one element in bytes.
func (d DType) Size() int64 {
	switch d {
	case Uint8, Int8, Bool:
		return 1
	case Int16, Float16, BFloat16:
		return 2
	case Int32, Float32, Complex32, DefaultDType:
		return 4
	case Int64, Float64, Complex64:
		return 8
	case Complex128:
		return 16
	}
	panic(invalid("DType.Size", "the size of %s is not known", d))
}

// IsFloatingPoint reports whether the type is a real floating-point type.
func (d DType) IsFloatingPoint() bool {
	return d == Float16 || d == Float32 || d == Float64 || d == BFloat16
}

// IsComplex reports whether the type is a complex type.
func (d DType) IsComplex() bool { return d == Complex32 || d == Complex64 || d == Complex128 }
