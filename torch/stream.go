package torch

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// chunkSize is the size of the buffer in Go's memory, used when a tensor's own memory is not
// accessible. It fits into a core's cache.
const chunkSize = 1 << 20

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// WriteTo writes the elements to w in row-major order, little-endian. The elements of a contiguous
// CPU tensor are written from its memory without a copy, others a megabyte at a time. It
// implements [io.WriterTo]; w must not retain the slices it is given. It waits for the device.
func (t Tensor) WriteTo(w io.Writer) (written int64, err error) {
	if data, ok := t.memory("WriteTo", false); ok {
		n, err := w.Write(data)
		runtime.KeepAlive(t.h)
		return int64(n), err
	}
	buffer := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(buffer)
	NoGrad(func() {
		flat := t.Reshape(-1)
		defer flat.Free()
		count, width := flat.Numel(), int64(t.DType().Size())
		for at := int64(0); at < count && err == nil; at += chunkSize / width {
			part := flat.Narrow(0, at, min(chunkSize/width, count-at))
			bytes := buffer[:part.Numel()*width]
			part.BytesInto(bytes)
			part.Free()
			var n int
			n, err = w.Write(bytes)
			written += int64(n)
		}
	})
	return written, err
}

// FillFrom reads the elements from r in row-major order, little-endian. The elements of a
// contiguous CPU tensor are read into its memory without a copy. If r fails or ends early, the
// error says so and the elements are undefined. Autograd does not record the change, and as with
// every change in place, no other goroutine may use the tensor meanwhile.
func (t Tensor) FillFrom(r io.Reader) error {
	if data, ok := t.memory("FillFrom", true); ok {
		_, err := io.ReadFull(r, data)
		runtime.KeepAlive(t.h)
		return fillError(err, len(data))
	}
	var err error
	NoGrad(func() {
		whole := TensorOptions{DType: t.DType()}.Empty(t.Shape()...)
		defer whole.Free()
		if err = whole.FillFrom(r); err == nil {
			t.Copy_(whole)
		}
	})
	return err
}

func fillError(err error, want int) error {
	if err == io.EOF && want > 0 || err == io.ErrUnexpectedEOF { //nolint:errorlint // made by ReadFull
		return fmt.Errorf("torch: FillFrom: the source ends before the %d bytes of the tensor: %w", want,
			io.ErrUnexpectedEOF)
	}
	return err
}

// memory returns the memory of the elements if it can be accessed directly. It is valid while the
// tensor lives.
func (t Tensor) memory(op string, write bool) (data []byte, ok bool) {
	size := t.facts(op).Bytes
	if size == 0 {
		return nil, true
	}
	p := cgotorch.Memory(t.ptr(op), write)
	if p == nil {
		return nil, false
	}
	return unsafe.Slice((*byte)(p), size), true
}
