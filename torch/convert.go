package torch

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Element is a Go type that a tensor can be filled from and read into. float16 and bfloat16 have
// no Go type: convert, or use [FromBytes].
type Element interface {
	uint8 | int8 | int16 | int32 | int64 | float32 | float64 | complex64 | complex128 | bool
}

// DTypeOf returns the dtype of a tensor that is made from a []T.
func DTypeOf[T Element]() DType {
	var v T
	switch any(v).(type) {
	case uint8:
		return Uint8
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case float32:
		return Float32
	case float64:
		return Float64
	case complex64:
		return Complex64
	case complex128:
		return Complex128
	default:
		return Bool
	}
}

func bytesOf[T Element](s []T) []byte {
	var v T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(v)))
}

// From returns a CPU tensor with a copy of data, in row-major order and in the dtype of its
// elements. Without a shape the tensor has one dimension. It panics if the shape does not have
// len(data) elements.
func From[T Element](data []T, shape ...int64) Tensor {
	if shape == nil {
		shape = []int64{int64(len(data))}
	}
	return FromBytes(bytesOf(data), DTypeOf[T](), shape...)
}

// FromBytes returns a CPU tensor with a copy of data, in row-major order and little-endian, as in
// safetensors files. It panics if the length of data does not match shape and dtype.
func FromBytes(data []byte, dtype DType, shape ...int64) Tensor {
	return fromBytes("FromBytes", data, dtype, false, shape)
}

func fromBytes(op string, data []byte, dtype DType, pinned bool, shape []int64) Tensor {
	load(op)
	var out cgotorch.Tensor
	if dtype == DefaultDType {
		dtype = Float32
	}
	code := cgotorch.FromBytes(data, shape, dtype.code(), pinned, &out)
	if code < 0 && reclaim(code) {
		code = cgotorch.FromBytes(data, shape, dtype.code(), pinned, &out)
	}
	if code < 0 {
		fail(op, code)
	}
	return wrap(out, code)
}

// ScalarTensor returns a CPU tensor without dimensions.
func ScalarTensor[T Element](v T) Tensor { return From([]T{v}, []int64{}...) }

// Values returns a copy of the elements in row-major order. T must match the tensor's dtype;
// convert with [Tensor.To] first otherwise. It waits for the device.
func Values[T Element](t Tensor) []T {
	info := t.facts("Values")
	data := make([]T, info.Numel)
	copyOut("Values", t, info, data)
	return data
}

// CopyTo copies the elements in row-major order into data, which must have the same number of
// elements and the matching type. It waits for the device.
func CopyTo[T Element](data []T, t Tensor) {
	info := t.facts("CopyTo")
	if int64(len(data)) != info.Numel {
		panic(&Error{Op: "CopyTo", Args: []string{t.describe()}, Code: ErrInvalid,
			Msg: fmt.Sprintf("the tensor has %d elements, but the slice has room for %d", info.Numel, len(data))})
	}
	copyOut("CopyTo", t, info, data)
}

func copyOut[T Element](op string, t Tensor, info cgotorch.Info, data []T) {
	if want := DTypeOf[T](); dtypeOf(info.DType) != want {
		panic(&Error{Op: op, Args: []string{t.describe()}, Code: ErrType,
			Msg: fmt.Sprintf("elements of dtype %s cannot be read as %s; convert with To(torch.TensorOptions{DType: "+
				"...}) "+
				"first", dtypeOf(info.DType), want)})
	}
	code := cgotorch.ToBytes(t.ptr(op), bytesOf(data))
	if code < 0 {
		fail(op, code, t)
	}
	runtime.KeepAlive(t.h)
}

// Bytes returns a copy of the elements in row-major order, little-endian. It waits for the device.
func (t Tensor) Bytes() []byte {
	data := make([]byte, t.facts("Bytes").Bytes)
	t.toBytes("Bytes", data)
	return data
}

// BytesInto is like [Tensor.Bytes] but writes into a buffer, which must have exactly the right
// length.
func (t Tensor) BytesInto(buffer []byte) {
	if want := t.facts("BytesInto").Bytes; int64(len(buffer)) != want {
		panic(&Error{Op: "BytesInto", Args: []string{t.describe()}, Code: ErrValue,
			Msg: fmt.Sprintf("the buffer has %d bytes, the tensor %d", len(buffer), want)})
	}
	t.toBytes("BytesInto", buffer)
}

func (t Tensor) toBytes(op string, data []byte) {
	code := cgotorch.ToBytes(t.ptr(op), data)
	if code < 0 {
		fail(op, code, t)
	}
	runtime.KeepAlive(t.h)
}

// Item returns the only element of t as a float64; booleans become 0 and 1. It waits for the
// device and panics if t does not have exactly one element. Integers beyond 2^53 lose digits: read
// them with Values.
func (t Tensor) Item() float64 {
	var out cgotorch.Scalar
	code := cgotorch.Item(t.ptr("Item"), &out)
	if code < 0 {
		fail("Item", code, t)
	}
	runtime.KeepAlive(t.h)
	if out.Kind == cgotorch.ScalarDouble {
		return math.Float64frombits(uint64(out.Bits))
	}
	return float64(out.Bits)
}

// optionalInt converts v to an optional int of libtorch; nil becomes None.
func optionalInt(v *int64) cgotorch.OptionalInt {
	if v == nil {
		return cgotorch.OptionalInt{}
	}
	return cgotorch.OptionalInt{Value: *v, Present: true}
}

// optionalDouble converts v to an optional double of libtorch; nil becomes None.
func optionalDouble(v *float64) cgotorch.OptionalDouble {
	if v == nil {
		return cgotorch.OptionalDouble{}
	}
	return cgotorch.OptionalDouble{Value: *v, Present: true}
}

// optionalScalar is like scalar but converts nil to None.
func optionalScalar(op string, v any) cgotorch.Scalar {
	if v == nil {
		return cgotorch.Scalar{}
	}
	return scalar(op, v)
}

// scalar converts v to a scalar of libtorch. As in Python, integers, floats and bools stay
// distinct.
func scalar(op string, v any) cgotorch.Scalar {
	switch v := v.(type) {
	case float64:
		return cgotorch.Double(v)
	case float32:
		return cgotorch.Double(float64(v))
	case int:
		return cgotorch.Int(int64(v))
	case int64:
		return cgotorch.Int(v)
	case int32:
		return cgotorch.Int(int64(v))
	case int16:
		return cgotorch.Int(int64(v))
	case int8:
		return cgotorch.Int(int64(v))
	case uint8:
		return cgotorch.Int(int64(v))
	case bool:
		if v {
			return cgotorch.Scalar{Bits: 1, Kind: cgotorch.ScalarBool}
		}
		return cgotorch.Scalar{Kind: cgotorch.ScalarBool}
	}
	panic(&Error{Op: op, Code: ErrType, Msg: "want a number or a bool, found " + typeName(v)})
}

// typeName returns what fmt prints for %T. Unlike fmt, it does not make v escape, so that numbers
// passed as any are not allocated.
func typeName(v any) string {
	if v == nil {
		return "<nil>"
	}
	return reflect.TypeOf(v).String()
}

// To returns t in another dtype or on another device: Tensor.to. The result shares t's elements if
// nothing changes. Zero fields keep what t has; use [Tensor.CPU] to copy from a GPU to the CPU.
func (t Tensor) To(o TensorOptions) Tensor {
	device := t.facts("To").Device
	if o.Device != CPU {
		device = o.Device.code()
	}
	return t.to("To", o.DType, device, false, false)
}

// ToDevice returns t on device d: Tensor.to(device). The result shares t's elements if t is on d
// already.
func (t Tensor) ToDevice(d Device) Tensor {
	return t.to("ToDevice", DefaultDType, d.code(), false, false)
}

// ToDType returns t in dtype d: Tensor.to(dtype). The result shares t's elements if t has that
// dtype already or d is DefaultDType.
func (t Tensor) ToDType(d DType) Tensor {
	return t.unary("ToDType", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		if d == DefaultDType {
			return cgotorch.To(c, none, none, false, false, none, out)
		}
		return cgotorch.ToDType(c, d.code(), false, false, none, out)
	})
}

// CPU returns t in host memory: Tensor.cpu.
func (t Tensor) CPU() Tensor { return t.ToDevice(CPU) }

func (t Tensor) to(op string, dtype DType, device int32, nonBlocking, copy bool) Tensor {
	return t.unary(op, func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.To(c, dtype.code(), device, nonBlocking, copy, none, out)
	})
}

// Copy_ copies the elements of src into t, converting and broadcasting: Tensor.copy_. It returns t.
func (t Tensor) Copy_(src Tensor) Tensor {
	code := cgotorch.Copy_(t.ptr("Copy_"), src.ptr("Copy_"), false)
	if code < 0 {
		fail("Copy_", code, t, src)
	}
	runtime.KeepAlive(t.h)
	runtime.KeepAlive(src.h)
	return t
}

// SetData_ makes t share the elements of value while staying the same tensor for autograd and
// optimizers: Tensor.data = value.
func (t Tensor) SetData_(value Tensor) Tensor {
	code := cgotorch.SetData_(t.ptr("SetData_"), value.ptr("SetData_"))
	if code < 0 {
		fail("SetData_", code, t, value)
	}
	runtime.KeepAlive(t.h)
	runtime.KeepAlive(value.h)
	return t
}
