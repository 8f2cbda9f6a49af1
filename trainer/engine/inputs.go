package engine

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// InputLister is a [Task] that can list what a batch sends to the device before the forward pass
// begins, so that [Options].Graphs can place it where a graph reads it.
type InputLister[B any] interface {
	// Inputs calls [Input] and [InputTensor] with everything that Loss or Predict will pass to them
	// for the same batch, in the same order, and refuses what they would refuse. It computes
	// nothing and draws no random numbers.
	Inputs(p ForwardPass, b B)
}

// staged is the input of a micro-batch in two stages: first it is listed, then passed to the
// forward pass.
type staged struct {
	listed  []torch.Tensor // inputs listed by Inputs: in page-locked memory for a GPU, or already on the device
	there   []bool         // whether each is already on the device, as input that was sent ahead is
	buffers []torch.Tensor // permanent input tensors of a graph; nil: inputs are sent to the device
	eager   string         // why this batch is not recorded; empty: it may be
	handing bool
	next    int
}

// NoGraph is called within Inputs to say that a batch cannot be recorded in a graph, and why: for
// example because its loss takes numbers from the host that differ from batch to batch.
func (p ForwardPass) NoGraph(why string) {
	if p.staged != nil {
		p.staged.eager = why
	}
}

func (s *staged) list(t torch.Tensor, there bool) torch.Tensor {
	s.listed, s.there = append(s.listed, t), append(s.there, there)
	return t
}

// give returns the listed input that corresponds to the one the forward pass asks for. It does not
// look at the contents: while a graph is captured, nothing may be copied or waited for that is not
// part of it.
func (s *staged) give(p ForwardPass, d torch.DType, shape []int64) torch.Tensor {
	if s.next == len(s.listed) || s.listed[s.next].DType() != d || !slices.Equal(s.listed[s.next].Shape(), shape) {
		panic(torch.Errorf("Input", torch.ErrInvalid, "the forward pass asks for input %d, %v of shape %v, which the "+
			"task's Inputs (engine.InputLister) has not listed there", s.next, d, slices.Clone(shape)))
	}
	i := s.next
	s.next++
	if s.buffers != nil {
		return s.buffers[i]
	}
	if s.there[i] {
		return s.listed[i]
	}
	return toDevice(p, s.listed[i])
}

// hand makes the forward pass, which starts over, use the listed inputs.
func (s *staged) hand(buffers []torch.Tensor) { s.handing, s.next, s.buffers = true, 0, buffers }

// kind describes the inputs except for their contents: "float32[32 784] int64[32]".
func (s *staged) kind() (text string) {
	for _, t := range s.listed {
		text += fmt.Sprintf("%v%v ", t.DType(), t.Shape())
	}
	return text
}

// room allocates memory on the device for inputs of this kind.
func (s *staged) room(p ForwardPass) (buffers []torch.Tensor) {
	for _, t := range s.listed {
		buffers = append(buffers, torch.TensorOptions{Device: p.Device, DType: t.DType()}.Zeros(t.Shape()...).Keep())
	}
	return buffers
}

// fill copies the inputs into the buffers of a graph, in the stream that computes, without waiting.
func (s *staged) fill(buffers []torch.Tensor) {
	for i, t := range s.listed {
		torch.Call("aten::copy_", buffers[i], t, true)
	}
}
