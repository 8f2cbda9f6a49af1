package torch

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Tensor is a multi-dimensional array. It is a reference: copies of the value refer to the same
// tensor. The zero value is the undefined tensor. It stands for "none" where an operator takes an
// optional tensor, and causes a panic everywhere else.
type Tensor struct{ h *handle }

// handle owns one reference to a libtorch tensor until it is freed by its scope, by the garbage
// collector or by Free.
type handle struct {
	c     cgotorch.Tensor // nil once freed
	scope *scope          // the scope that frees it, if any
	owned *owned          // what the garbage collector needs to free it, if it does
}

// ptr returns the handle of an argument that must be defined.
func (t Tensor) ptr(op string) cgotorch.Tensor {
	if t.h != nil {
		if c := t.h.c; c != nil { // read once: another goroutine may free the tensor, see CheckUse
			return c
		}
	}
	panic(t.misuse(op))
}

// optional returns the handle of an argument that may be undefined.
func (t Tensor) optional(op string) cgotorch.Tensor {
	if t.h == nil {
		return nil
	}
	return t.ptr(op)
}

func (t Tensor) misuse(op string) *Error {
	if t.h == nil {
		return &Error{Op: op, Code: ErrUndefined, Msg: "a tensor is undefined (it is the zero Tensor); make it " +
			"first, or check Defined()"}
	}
	return &Error{Op: op, Code: ErrFreed, Msg: "a tensor was used after it was freed, or after the Scope in which it " +
		"was made had ended; Keep() lets a tensor outlive its scope"}
}

// pointers returns the handles of a list of arguments; those of undefined tensors are nil.
func pointers(op string, ts []Tensor) []cgotorch.Tensor {
	list := make([]cgotorch.Tensor, len(ts))
	for i, t := range ts {
		list[i] = t.optional(op)
	}
	return list
}

// required returns the handles of a list of arguments, which must all be defined.
func required(op string, ts []Tensor) []cgotorch.Tensor {
	list := make([]cgotorch.Tensor, len(ts))
	for i, t := range ts {
		list[i] = t.ptr(op)
	}
	return list
}

// wrap makes a Tensor from a new reference and hands it over to the scope that code names, or to
// the garbage collector.
func wrap(c cgotorch.Tensor, code cgotorch.Code) Tensor {
	if c == nil {
		return Tensor{}
	}
	return (&handle{c: c}).given(code)
}

// given is like wrap for a handle whose reference a call has already written. The output of a
// function value is allocated on the heap anyway, so it can be the handle itself.
func (h *handle) given(code cgotorch.Code) Tensor {
	if h.c == nil {
		return Tensor{}
	}
	if code > 0 {
		h.scope = scopes[code]
		h.scope.handles = append(h.scope.handles, h)
		live.Add(1)
	} else {
		collect(h)
	}
	return Tensor{h}
}

func wrapList(list *cgotorch.TensorList, code cgotorch.Code) []Tensor {
	handles := list.Take()
	ts := make([]Tensor, len(handles))
	for i, c := range handles {
		ts[i] = wrap(c, code)
	}
	return ts
}

// Defined reports whether t is not the undefined tensor.
func (t Tensor) Defined() bool { return t.h != nil }

// Is reports whether both are the same tensor object, not merely equal.
func (t Tensor) Is(other Tensor) bool {
	return t.h == other.h || (t.h != nil && other.h != nil && t.h.c != nil && t.h.c == other.h.c)
}

func (t Tensor) info(op string) cgotorch.Info {
	i := cgotorch.GetInfo(t.ptr(op))
	runtime.KeepAlive(t.h)
	return i
}

// facts is like info, but without sizes and strides, so that it does not allocate.
func (t Tensor) facts(op string) cgotorch.Info {
	i := cgotorch.GetFacts(t.ptr(op))
	runtime.KeepAlive(t.h)
	return i
}

// Shape returns the sizes of all dimensions.
func (t Tensor) Shape() []int64 {
	s := cgotorch.Sizes(t.ptr("Shape"))
	runtime.KeepAlive(t.h)
	return s
}

// Size returns the size of dimension dim; a negative dim counts from the end.
func (t Tensor) Size(dim int64) int64 {
	size, ok := cgotorch.Size(t.ptr("Size"), dim)
	runtime.KeepAlive(t.h)
	if !ok {
		panic(&Error{Op: "Size", Args: []string{t.describe()}, Code: ErrIndex,
			Msg: fmt.Sprintf("dimension %d is out of range: the tensor has %d dimensions", dim, t.Dim())})
	}
	return size
}

// Stride returns, for each dimension, the distance in memory between neighbouring elements,
// counted in elements.
func (t Tensor) Stride() []int64 { return t.info("Stride").Strides }

// Dim returns the number of dimensions.
func (t Tensor) Dim() int { return t.facts("Dim").Dims }

// Numel returns the number of elements.
func (t Tensor) Numel() int64 { return t.facts("Numel").Numel }

// DType returns the type of the elements.
func (t Tensor) DType() DType { return dtypeOf(t.facts("DType").DType) }

// Device returns the device of the elements.
func (t Tensor) Device() Device { return deviceOf(t.facts("Device").Device) }

// IsContiguous reports whether the elements are in row-major order without gaps.
func (t Tensor) IsContiguous() bool { return t.facts("IsContiguous").IsContiguous }

// IsStrided reports whether all elements of t are in memory: t.layout == torch.strided. The
// gradient of an embedding may be sparse, and then holds only the rows that were used. Operators
// of sparse tensors are available through [Call].
func (t Tensor) IsStrided() bool { return t.facts("IsStrided").IsStrided }

// IsLeaf reports whether t was made by the user rather than by a differentiable operator.
func (t Tensor) IsLeaf() bool { return t.facts("IsLeaf").IsLeaf }

// describe returns a description of a tensor for errors: "float32[2,3]".
func (t Tensor) describe() string {
	if t.h == nil {
		return "undefined"
	}
	if t.h.c == nil {
		return "freed"
	}
	i := cgotorch.GetInfo(t.h.c)
	runtime.KeepAlive(t.h)
	s := dtypeOf(i.DType).String() + strings.ReplaceAll(fmt.Sprint(i.Sizes), " ", ",")
	if d := deviceOf(i.Device); d != CPU {
		s += "@" + d.String()
	}
	return s
}
