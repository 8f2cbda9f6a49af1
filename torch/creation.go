package torch

import (
	"math"
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// TensorOptions says what a new tensor is like. The zero value means float32 on the CPU, drawn from
// the default generator.
//
//	ids := torch.TensorOptions{DType: torch.Int64}.Zeros(8, 128)
type TensorOptions struct {
	DType     DType
	Device    Device
	Generator *Generator // for random tensors; nil means the device's default generator
}

type factory func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code

func (o TensorOptions) make(op string, f factory) Tensor {
	load(op)
	out := new(handle)
	code := f(o.DType.code(), o.Device.code(), &out.c)
	if code < 0 && reclaim(code) {
		code = f(o.DType.code(), o.Device.code(), &out.c)
	}
	if code < 0 {
		fail(op, code)
	}
	runtime.KeepAlive(o.Generator)
	return out.given(code)
}

// Empty returns an uninitialized tensor: torch.empty.
func (o TensorOptions) Empty(shape ...int64) Tensor {
	return o.make("Empty", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Empty(shape, dtype, device, out)
	})
}

// Zeros returns a tensor of zeros: torch.zeros.
func (o TensorOptions) Zeros(shape ...int64) Tensor {
	return o.make("Zeros", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Zeros(shape, dtype, device, out)
	})
}

// Ones returns a tensor of ones: torch.ones.
func (o TensorOptions) Ones(shape ...int64) Tensor {
	return o.make("Ones", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Ones(shape, dtype, device, out)
	})
}

// Full returns a tensor filled with value, a Go number or bool: torch.full. Without a DType, the
// type of value decides: int64, float32 or bool.
func (o TensorOptions) Full(value any, shape ...int64) Tensor {
	v := scalar("Full", value)
	return o.make("Full", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Full(shape, v, dtype, device, out)
	})
}

// Eye returns the n by n identity matrix: torch.eye.
func (o TensorOptions) Eye(n int64) Tensor {
	return o.make("Eye", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Eye(n, dtype, device, out)
	})
}

// Arange returns start, start+step, ... up to but excluding end: torch.arange. Without a DType,
// the result is int64 for integer arguments and float32 otherwise.
func (o TensorOptions) Arange(start, end, step any) Tensor {
	s, e, d := scalar("Arange", start), scalar("Arange", end), scalar("Arange", step)
	if by := math.Float64frombits(uint64(d.Bits)); o.DType == Int64 && d.Kind == cgotorch.ScalarDouble && by != 0 &&
		// libtorch truncates the step to an integer and divides by it, so a step that becomes 0
		// would kill the process.
		math.Abs(by) < 1 {
		panic(Errorf("Arange", ErrValue, "the step %g is 0 as an int64; want a whole number", by))
	}
	return o.make("Arange", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Arange(s, e, d, dtype, device, out)
	})
}

// Linspace returns steps evenly spaced numbers from start to end, both included: torch.linspace.
func (o TensorOptions) Linspace(start, end any, steps int64) Tensor {
	s, e := scalar("Linspace", start), scalar("Linspace", end)
	return o.make("Linspace", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Linspace(s, e, steps, dtype, device, out)
	})
}

// Rand returns numbers drawn uniformly from [0, 1): torch.rand.
func (o TensorOptions) Rand(shape ...int64) Tensor {
	return o.make("Rand", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Rand(shape, o.Generator.pointer(), dtype, device, out)
	})
}

// Randn returns numbers drawn from the standard normal distribution: torch.randn.
func (o TensorOptions) Randn(shape ...int64) Tensor {
	return o.make("Randn", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Randn(shape, o.Generator.pointer(), dtype, device, out)
	})
}

// RandInt returns integers drawn uniformly from [low, high), int64 without a DType: torch.randint.
func (o TensorOptions) RandInt(low, high int64, shape ...int64) Tensor {
	if o.DType == DefaultDType {
		o.DType = Int64
	}
	return o.make("RandInt", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Randint(low, high, shape, o.Generator.pointer(), dtype, device, out)
	})
}

// RandPerm returns 0..n-1 in random order, int64 without a DType: torch.randperm.
func (o TensorOptions) RandPerm(n int64) Tensor {
	if o.DType == DefaultDType {
		o.DType = Int64
	}
	return o.make("RandPerm", func(dtype, device int32, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.RandPerm(n, o.Generator.pointer(), dtype, device, out)
	})
}

// Empty returns an uninitialized float32 tensor on the CPU: torch.empty.
func Empty(shape ...int64) Tensor { return TensorOptions{}.Empty(shape...) }

// Zeros returns a float32 tensor of zeros on the CPU: torch.zeros.
func Zeros(shape ...int64) Tensor { return TensorOptions{}.Zeros(shape...) }

// Ones returns a float32 tensor of ones on the CPU: torch.ones.
func Ones(shape ...int64) Tensor { return TensorOptions{}.Ones(shape...) }

// Full returns a tensor filled with value on the CPU: torch.full. The type of value decides the
// dtype: int64, float32 or bool.
func Full(value any, shape ...int64) Tensor { return TensorOptions{}.Full(value, shape...) }

// Eye returns the n by n identity matrix in float32 on the CPU: torch.eye.
func Eye(n int64) Tensor { return TensorOptions{}.Eye(n) }

// Arange returns the int64 numbers 0, 1, ... n-1 on the CPU: torch.arange(n).
// [TensorOptions.Arange] takes all arguments.
func Arange(n int64) Tensor { return TensorOptions{}.Arange(0, n, 1) }

// Linspace returns steps evenly spaced float32 numbers from start to end, both included:
// torch.linspace.
func Linspace(start, end any, steps int64) Tensor { return TensorOptions{}.Linspace(start, end, steps) }

// Rand returns float32 numbers drawn uniformly from [0, 1) by the default generator: torch.rand.
func Rand(shape ...int64) Tensor { return TensorOptions{}.Rand(shape...) }

// Randn returns float32 numbers drawn from the standard normal distribution by the default
// generator: torch.randn.
func Randn(shape ...int64) Tensor { return TensorOptions{}.Randn(shape...) }

// RandInt returns int64 numbers drawn uniformly from [low, high) by the default generator:
// torch.randint.
func RandInt(low, high int64, shape ...int64) Tensor {
	return TensorOptions{}.RandInt(low, high, shape...)
}

// RandPerm returns the int64 numbers 0..n-1 in an order drawn from the default generator:
// torch.randperm.
func RandPerm(n int64) Tensor { return TensorOptions{}.RandPerm(n) }

const (
	none = int32(-1) // lets libtorch choose a dtype, device or memory format
)

// unary calls an operator that takes t and returns one tensor. If memory is short, it retries once.
func (t Tensor) unary(op string, f func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code) Tensor {
	out := new(handle)
	code := f(t.ptr(op), &out.c)
	if code < 0 && reclaim(code) {
		code = f(t.ptr(op), &out.c)
	}
	if code < 0 {
		fail(op, code, t)
	}
	runtime.KeepAlive(t.h)
	return out.given(code)
}

// EmptyLike returns an uninitialized tensor like t: torch.empty_like.
func (t Tensor) EmptyLike() Tensor {
	return t.unary("EmptyLike", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.EmptyLike(c, none, none, none, out)
	})
}

// ZerosLike returns zeros with the shape, dtype and device of t: torch.zeros_like.
func (t Tensor) ZerosLike() Tensor {
	return t.unary("ZerosLike", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.ZerosLike(c, none, none, none, out)
	})
}

// OnesLike returns ones with the shape, dtype and device of t: torch.ones_like.
func (t Tensor) OnesLike() Tensor {
	return t.unary("OnesLike", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.OnesLike(c, none, none, none, out)
	})
}

// FullLike returns a tensor filled with value, with the shape, dtype and device of t:
// torch.full_like.
func (t Tensor) FullLike(value any) Tensor {
	v := scalar("FullLike", value)
	return t.unary("FullLike", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.FullLike(c, v, none, none, none, out)
	})
}

// RandLike returns numbers drawn uniformly from [0, 1), with the shape, dtype and device of t:
// torch.rand_like.
func (t Tensor) RandLike() Tensor {
	return t.unary("RandLike", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.RandLike(c, none, none, none, out)
	})
}

// RandnLike returns numbers drawn from the standard normal distribution, with the shape, dtype and
// device of t: torch.randn_like.
func (t Tensor) RandnLike() Tensor {
	return t.unary("RandnLike", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.RandnLike(c, none, none, none, out)
	})
}

// Clone returns a copy of t that is part of its history: torch.clone.
func (t Tensor) Clone() Tensor {
	return t.unary("Clone", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Clone(c, none, out)
	})
}
