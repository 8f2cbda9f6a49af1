package engine

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// InputLister is a [Task] that says what a batch gives the device before the forward pass begins,
// so that [Options].Graphs can put it where a graph looks for it.
type InputLister[B any] interface {
	// Inputs calls [Input] and [InputTensor] for all that Loss or Predict will pass to them for the
	// same batch, in the same order, and refuses what they would refuse. It computes nothing, and
	// draws nothing at random.
	Inputs(p ForwardPass, b B)
}

// staged is the input of a micro-batch on its way: listed on the host first, then handed to the
// forward pass.
type staged struct {
	host    []torch.Tensor // as Inputs has listed them, in page-locked memory where there is a GPU
	buffers []torch.Tensor // of a graph, where they are for good; nil: they are sent
	handing bool
	next    int
}

// take lists an input, or hands out the one that was listed in its place.
func (s *staged) take(p ForwardPass, t torch.Tensor) torch.Tensor {
	if !s.handing {
		s.host = append(s.host, t)
		return t
	}
	if s.next == len(s.host) || s.host[s.next].DType() != t.DType() ||
		!slices.Equal(s.host[s.next].Shape(), t.Shape()) {
		panic(torch.Errorf("Input", torch.ErrInvalid, "the forward pass asks for input %d, %v of shape %v, which the "+
			"task's Inputs (engine.InputLister) has not listed there", s.next, t.DType(), t.Shape()))
	}
	i := s.next
	s.next++
	if s.buffers != nil {
		return s.buffers[i]
	}
	return toDevice(p, s.host[i])
}

// hand has the forward pass, which begins anew, take the listed inputs.
func (s *staged) hand(buffers []torch.Tensor) { s.handing, s.next, s.buffers = true, 0, buffers }

// kind is what the inputs are but for their contents: "float32[32 784] int64[32]".
func (s *staged) kind() (text string) {
	for _, t := range s.host {
		text += fmt.Sprintf("%v%v ", t.DType(), t.Shape())
	}
	return text
}

// room is memory on the device for inputs like these.
func (s *staged) room(p ForwardPass) (buffers []torch.Tensor) {
	for _, t := range s.host {
		buffers = append(buffers, torch.TensorOptions{Device: p.Device, DType: t.DType()}.Zeros(t.Shape()...).Keep())
	}
	return buffers
}

// fill copies them there; the host does not wait.
func (s *staged) fill(buffers []torch.Tensor) {
	for i, t := range s.host {
		torch.Call("aten::copy_", buffers[i], t, true)
	}
}
