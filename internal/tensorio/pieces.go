package tensorio

import (
	"io"
	"sync"

	"github.com/gotrainer/gotrainer/torch"
)

// piece is how much of a tensor is in Go's memory at a time: as much as stays in a core's cache, so
// that the copy costs little, and no copy of a state is ever in Go's heap.
const piece = 1 << 20

var buffers = sync.Pool{New: func() any { return new([piece]byte) }}

// writeTo writes the elements of t, little-endian and in C order. It panics as package torch does.
func writeTo(w io.Writer, t torch.Tensor) (err error) {
	buffer := buffers.Get().(*[piece]byte)
	defer buffers.Put(buffer)
	n := t.Numel()
	width := int64(t.DType().Size())
	torch.NoGrad(func() {
		if n*width <= piece {
			t.BytesInto(buffer[:n*width])
			_, err = w.Write(buffer[:n*width])
			return
		}
		flat := t.Reshape(-1)
		defer flat.Free()
		for at := int64(0); at < n && err == nil; at += piece / width {
			count := min(piece/width, n-at)
			part := flat.Narrow(0, at, count)
			part.BytesInto(buffer[:count*width])
			part.Free()
			_, err = w.Write(buffer[:count*width])
		}
	})
	return err
}

// fromSection makes a CPU tensor of what it reads. It panics as package torch does.
func fromSection(r *io.SectionReader, dtype torch.DType, shape []int64) (torch.Tensor, error) {
	buffer := buffers.Get().(*[piece]byte)
	defer buffers.Put(buffer)
	if r.Size() <= piece {
		if _, err := io.ReadFull(r, buffer[:r.Size()]); err != nil && r.Size() > 0 {
			return torch.Tensor{}, err
		}
		return torch.FromBytes(buffer[:r.Size()], dtype, shape...), nil
	}
	t := torch.TensorOptions{DType: dtype}.Empty(shape...)
	whole := false
	defer func() {
		if !whole {
			t.Free()
		}
	}()
	flat := t.View(-1)
	defer flat.Free()
	width := int64(dtype.Size())
	for at := int64(0); at < r.Size()/width; at += piece / width {
		count := min(piece/width, r.Size()/width-at)
		if _, err := io.ReadFull(r, buffer[:count*width]); err != nil {
			return torch.Tensor{}, err
		}
		from, to := torch.FromBytes(buffer[:count*width], dtype, count), flat.Narrow(0, at, count)
		to.Copy_(from)
		from.Free()
		to.Free()
	}
	whole = true
	return t, nil
}
