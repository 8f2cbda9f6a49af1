package torch

import (
	"fmt"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// MemoryFormat is an order of the dimensions in memory: torch.memory_format.
type MemoryFormat int32

// The memory formats, as in c10::MemoryFormat.
const (
	ContiguousFormat MemoryFormat = 0 // row-major
	// NHWC for a tensor of shape [N, C, H, W], the preferred format of convolutions on the CPU and
	// on tensor cores
	ChannelsLast   MemoryFormat = 2
	ChannelsLast3d MemoryFormat = 3 // NDHWC for [N, C, D, H, W]
)

// code returns libtorch's number of the format. It panics for unknown ones, because libtorch does
// not check the format if there is nothing to convert.
func (f MemoryFormat) code(op string) int32 {
	switch f {
	case ContiguousFormat, ChannelsLast, ChannelsLast3d:
		return int32(f)
	}
	panic(&Error{Op: op, Code: ErrValue,
		Msg: fmt.Sprintf("there is no memory format number %d; want ContiguousFormat, ChannelsLast or ChannelsLast3d",
			f)})
}

// Contiguous returns t in row-major order, or t itself if it already is: Tensor.contiguous.
func (t Tensor) Contiguous() Tensor { return t.ContiguousIn(ContiguousFormat) }

// ContiguousIn returns t in a memory format, or t itself if it already is:
// Tensor.contiguous(memory_format=...).
func (t Tensor) ContiguousIn(f MemoryFormat) Tensor {
	return t.unary("ContiguousIn", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Contiguous(c, f.code("ContiguousIn"), out)
	})
}

// InMemoryFormat returns t in a memory format: Tensor.to(memory_format=...). It sets the strides
// of that format even where dimensions of size 1 leave them open; convolutions choose their own
// format by them.
func (t Tensor) InMemoryFormat(f MemoryFormat) Tensor {
	return t.unary("InMemoryFormat", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.To(c, none, none, false, true, f.code("InMemoryFormat"), out)
	})
}
