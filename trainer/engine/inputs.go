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

// staged is the input of a micro-batch on its way: listed first, then handed to the forward pass.
type staged struct {
	listed  []torch.Tensor // by Inputs: in page-locked memory where there is a GPU, or there already
	there   []bool         // on the device, as what was sent ahead is
	buffers []torch.Tensor // of a graph, where they are for good; nil: they are sent
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

// give hands out the input that was listed in the place of the one that is asked for. It looks at
// no contents: while a graph is captured, nothing may be copied or waited for that is no part of
// it.
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

// hand has the forward pass, which begins again, take the listed inputs.
func (s *staged) hand(buffers []torch.Tensor) { s.handing, s.next, s.buffers = true, 0, buffers }

// kind is what the inputs are but for their contents: "float32[32 784] int64[32]".
func (s *staged) kind() (text string) {
	for _, t := range s.listed {
		text += fmt.Sprintf("%v%v ", t.DType(), t.Shape())
	}
	return text
}

// room is memory on the device for inputs like these.
func (s *staged) room(p ForwardPass) (buffers []torch.Tensor) {
	for _, t := range s.listed {
		buffers = append(buffers, torch.TensorOptions{Device: p.Device, DType: t.DType()}.Zeros(t.Shape()...).Keep())
	}
	return buffers
}

// fill copies them there, in the stream that computes; the host does not wait.
func (s *staged) fill(buffers []torch.Tensor) {
	for i, t := range s.listed {
		torch.Call("aten::copy_", buffers[i], t, true)
	}
}
