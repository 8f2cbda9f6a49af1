package pickle

import (
	"math/bits"
	"slices"

	"github.com/gotrainer/gotrainer/safetensors"
)

// Tensor describes a tensor of a file.
type Tensor struct {
	Name  string
	DType safetensors.DType
	Shape []int64 // empty for a scalar

	storage storage
	first   int64 // byte of the first element in the storage
	strides []int64
}

// maxDims is PyTorch's limit.
const maxDims = 64

func (t *Tensor) width() int64 { return int64(t.DType.Bits() / 8) }

// Elements returns the number of elements.
func (t *Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Size returns the number of bytes that [Reader.Read] returns.
func (t *Tensor) Size() int64 { return t.Elements() * t.width() }

// check checks that all elements are in the storage and that there are no more of them than the
// storage has, and sets first.
func (t *Tensor) check(offset int64) error {
	if len(t.Shape) > maxDims {
		return fault(ErrTooLarge, t.storage.name, "a tensor has %d dimensions; want at most %d", len(t.Shape), maxDims)
	}
	width := t.width()
	room := t.storage.bytes / width
	elements, last, ok := int64(1), offset, offset >= 0
	if slices.Contains(t.Shape, 0) {
		if !ok || offset > room {
			return fault(ErrMalformed, t.storage.name, "an empty tensor begins at %d of %d elements", offset, room)
		}
		t.first = offset * width
		return nil
	}
	for i, d := range t.Shape {
		elements, ok = times(elements, d, ok)
		var reach int64
		reach, ok = times(d-1, t.strides[i], ok)
		last, ok = plus(last, reach, ok)
	}
	if !ok || last >= room {
		return fault(ErrMalformed, t.storage.name, "a tensor with sizes %v and strides %v from %d on reaches beyond "+
			"its %d elements", t.Shape, t.strides, offset, room)
	}
	if elements > room {
		return fault(ErrTooLarge, t.storage.name, "a tensor of sizes %v and strides %v repeats the %d elements of "+
			"its storage; save tensor.contiguous()", t.Shape, t.strides, room)
	}
	t.first = offset * width
	return nil
}

func times(a, b int64, ok bool) (int64, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), ok && high == 0 && low < 1<<62
}

func plus(a, b int64, ok bool) (int64, bool) {
	return a + b, ok && a < 1<<62 && b < 1<<62
}

// contiguous reports whether the elements are in C order without gaps.
func (t *Tensor) contiguous() bool {
	next := int64(1)
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] != 1 && t.strides[i] != next {
			return false
		}
		next *= t.Shape[i]
	}
	return true
}

// span returns the number of bytes of the storage from the first to the last element, inclusive.
func (t *Tensor) span() int64 {
	last := int64(0)
	for i, d := range t.Shape {
		if d == 0 {
			return 0
		}
		last += (d - 1) * t.strides[i]
	}
	return (last + 1) * t.width()
}

// gather copies the elements of span into C order.
func (t *Tensor) gather(dst, span []byte) {
	width := t.width()
	at := make([]int64, len(t.Shape))
	from := int64(0)
	for to := int64(0); to < int64(len(dst)); to += width {
		copy(dst[to:to+width], span[from:from+width])
		for d := len(at) - 1; d >= 0; d-- {
			at[d]++
			from += t.strides[d] * width
			if at[d] < t.Shape[d] {
				break
			}
			from -= at[d] * t.strides[d] * width
			at[d] = 0
		}
	}
}
