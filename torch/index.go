package torch

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Index is one position of [Tensor.At]: a number, a range, a tensor, [All], [NewAxis] or
// [Ellipsis].
//
//	x.At(0)                          // x[0]
//	x.At(torch.All, -1)              // x[:, -1]
//	x.At(torch.Range(1, 3))          // x[1:3]
//	x.At(torch.Ellipsis, torch.NewAxis) // x[..., None]
//	x.At(rows)                       // x[rows], rows an int64 or bool tensor: a copy
type Index any

type (
	everything struct{}
	newAxis    struct{}
	ellipsis   struct{}
	span       struct {
		start, end cgotorch.OptionalInt
		step       int64
	}
)

// Positions with a special meaning.
var (
	All      Index = everything{} // the whole dimension: ":"
	NewAxis  Index = newAxis{}    // a new dimension of size 1: "None"
	Ellipsis Index = ellipsis{}   // as many whole dimensions as remain: "..."
)

// Range is start:end; negative numbers count from the end.
func Range(start, end int64) Index { return RangeStep(start, end, 1) }

// RangeStep is start:end:step with a positive step.
func RangeStep(start, end, step int64) Index {
	return span{cgotorch.OptionalInt{Value: start, Present: true}, cgotorch.OptionalInt{Value: end, Present: true},
		step}
}

// RangeFrom is start: up to the end of the dimension.
func RangeFrom(start int64) Index {
	return span{cgotorch.OptionalInt{Value: start, Present: true}, cgotorch.OptionalInt{}, 1}
}

// At returns a part of t, as t[...] does in Python: a view if only numbers and ranges are used, a
// copy if a tensor is.
func (t Tensor) At(positions ...Index) Tensor {
	out, tensors := t.resolve("At", positions)
	switch {
	// The result must be a new handle, so that freeing it does not free t.
	case tensors == nil && out.Is(t):
		return Call("aten::alias", t)[0]
	case tensors == nil:
		return out
	}
	return out.unaryList("At", tensors, func(c cgotorch.Tensor, list []cgotorch.Tensor,
		result *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Index(c, list, result)
	})
}

// SetAt writes value, broadcast, into a part of t, as t[...] = value does in Python, and returns
// t. Leading dimensions of size 1 of value are ignored.
func (t Tensor) SetAt(value Tensor, positions ...Index) Tensor {
	out, tensors := t.resolve("SetAt", positions)
	if shape := value.Shape(); len(shape) > 0 && shape[0] == 1 {
		counting := slices.IndexFunc(shape, func(size int64) bool { return size != 1 })
		if counting < 0 {
			counting = len(shape)
		}
		value = value.View(shape[counting:]...)
	}
	if tensors == nil {
		out.Copy_(value)
		return t
	}
	code := cgotorch.IndexPut_(out.ptr("SetAt"), pointers("SetAt", tensors), value.ptr("SetAt"), false)
	if code < 0 {
		fail("SetAt", code, append([]Tensor{t, value}, tensors...)...)
	}
	runtime.KeepAlive(out.h)
	runtime.KeepAlive(value.h)
	runtime.KeepAlive(tensors)
	return t
}

func (t Tensor) unaryList(op string, list []Tensor, f func(c cgotorch.Tensor, list []cgotorch.Tensor,
	out *cgotorch.Tensor) cgotorch.Code) Tensor {
	defer runtime.KeepAlive(list)
	return t.unary(op, func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return f(c, pointers(op, list), out)
	})
}

// resolve applies numbers, ranges and new axes as views. Tensors are returned for an indexing
// operator, with an undefined tensor in place of each whole dimension before them.
func (t Tensor) resolve(op string, positions []Index) (view Tensor, tensors []Tensor) {
	used := 0
	for _, p := range positions {
		switch p := p.(type) {
		case newAxis, ellipsis:
		case Tensor:
			if p.DType() == Bool { // a mask indexes as many dimensions as it has
				used += p.Dim()
			} else {
				used++
			}
		default:
			used++
		}
	}
	dims := t.Dim()
	if used > dims {
		panic(&Error{Op: op, Args: []string{t.describe()}, Code: ErrIndex,
			Msg: fmt.Sprintf("too many positions: %d were given for %d dimensions", used, dims)})
	}
	view = t
	dim := int64(0)
	seen := false
	var indices []Tensor
	for i, p := range positions {
		switch p := p.(type) {
		case int:
			view = view.Select(dim, int64(p))
		case int64:
			view = view.Select(dim, p)
		case everything:
			dim++
		case span:
			if p.step < 1 {
				panic(&Error{Op: op, Args: []string{t.describe()}, Code: ErrValue,
					Msg: fmt.Sprintf("position %d: the step of a range must be positive, not %d (use Flip)", i,
						p.step)})
			}
			view = view.slice(dim, p)
			dim++
		case newAxis:
			view = view.Unsqueeze(dim)
			dim++
		case ellipsis:
			if seen {
				panic(&Error{Op: op, Args: []string{t.describe()}, Code: ErrIndex, Msg: "only one Ellipsis is allowed"})
			}
			seen = true
			dim += int64(dims - used)
		case Tensor:
			for int64(len(indices)) < dim {
				indices = append(indices, Tensor{})
			}
			indices = append(indices, p)
			tensors = indices
			dim++
			if p.DType() == Bool {
				dim += int64(p.Dim() - 1)
			}
		default:
			panic(&Error{Op: op, Args: []string{t.describe()}, Code: ErrType,
				Msg: fmt.Sprintf("position %d: want an int, a Range, All, NewAxis, Ellipsis or a tensor, found %T", i,
					p)})
		}
	}
	return view, tensors
}

func (t Tensor) slice(dim int64, s span) Tensor {
	return t.unary("Slice", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Slice(c, dim, s.start, s.end, s.step, out)
	})
}

// Slice returns the elements start..end-1 along dim, every step-th, as a view; negative numbers
// count from the end: torch's t[start:end:step].
func (t Tensor) Slice(dim, start, end, step int64) Tensor {
	return t.slice(dim, span{cgotorch.OptionalInt{Value: start, Present: true}, cgotorch.OptionalInt{Value: end,
		Present: true}, step})
}

// Expand returns t repeated to a larger shape without copying; -1 keeps a size: Tensor.expand.
func (t Tensor) Expand(shape ...int64) Tensor {
	return t.unary("Expand", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Expand(c, shape, out)
	})
}

// ArgMax returns the indices of the largest elements along dim: torch.argmax.
func (t Tensor) ArgMax(dim int64, keepDim bool) Tensor {
	return t.unary("ArgMax", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.ArgMax(c, cgotorch.OptionalInt{Value: dim, Present: true}, keepDim, out)
	})
}

// ArgMin returns the indices of the smallest elements along dim: torch.argmin.
func (t Tensor) ArgMin(dim int64, keepDim bool) Tensor {
	return t.unary("ArgMin", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.ArgMin(c, cgotorch.OptionalInt{Value: dim, Present: true}, keepDim, out)
	})
}

// Norm returns the p-norm of all elements; p = 2 is the Euclidean norm: torch.linalg.vector_norm.
func (t Tensor) Norm(p float64) Tensor {
	return t.unary("Norm", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.VectorNorm(c, cgotorch.Double(p), nil, false, none, out)
	})
}

// Pad returns t padded with value; pad lists pairs (before, after), starting with the last
// dimension: torch.nn.functional.pad in mode "constant".
func (t Tensor) Pad(value float64, pad ...int64) Tensor {
	return t.unary("Pad", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Pad(c, pad, "constant", cgotorch.OptionalDouble{Value: value, Present: true}, out)
	})
}
