package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Stack runs layers one after another.
type Stack[L StackLayer] struct {
	nn.Mode
	Layer []L `module:"layer"`

	checkpointing bool
	run           layerRunner // runs the layers; nil means that they are run here
}

type layerRunner = func(i int, f func(in []torch.Tensor) []torch.Tensor, inputs ...torch.Tensor) []torch.Tensor

// StackLayer maps hidden states to hidden states.
type StackLayer interface {
	Forward(x torch.Tensor, mask Mask) torch.Tensor
}

func newStack[L StackLayer](n int64, layer func() L) Stack[L] {
	s := Stack[L]{Layer: make([]L, n)}
	for i := range s.Layer {
		s.Layer[i] = layer()
	}
	return s
}

// Forward maps hidden states, [B, L, hidden] or [T, hidden], to the same shape.
func (s *Stack[L]) Forward(x torch.Tensor, mask Mask) torch.Tensor {
	return s.ForwardEach(x, func(int) Mask { return mask })
}

// ForwardEach is Forward for layers that each have their own mask.
func (s *Stack[L]) ForwardEach(x torch.Tensor, maskOf func(layer int) Mask) torch.Tensor {
	return s.forward(len(s.Layer), x, maskOf, nil)
}

// ForwardBetween is Forward that passes the output of each layer but the last through a function.
func (s *Stack[L]) ForwardBetween(x torch.Tensor, mask Mask,
	between func(layer int, x torch.Tensor) torch.Tensor) torch.Tensor {
	return s.forward(len(s.Layer), x, func(int) Mask { return mask }, between)
}

// HiddenStates runs the first n layers, and returns their input and what each of them returns:
// output_hidden_states of transformers.
func (s *Stack[L]) HiddenStates(n int, x torch.Tensor, mask Mask) []torch.Tensor {
	states := []torch.Tensor{x}
	if n == 0 {
		return states
	}
	last := s.forward(n, x, func(int) Mask { return mask }, func(_ int, x torch.Tensor) torch.Tensor {
		states = append(states, x)
		return x
	})
	return append(states, last)
}

// forward runs the first n layers.
func (s *Stack[L]) forward(n int, x torch.Tensor, maskOf func(layer int) Mask,
	between func(layer int, x torch.Tensor) torch.Tensor) torch.Tensor {
	for i, layer := range s.Layer[:n] {
		if i > 0 && between != nil {
			x = between(i-1, x)
		}
		mask := maskOf(i)
		again := func(in []torch.Tensor) []torch.Tensor {
			same := mask
			same.Padding, same.Rotary = in[1], Rotary{in[2], in[3]}
			out := make([]torch.Tensor, 1, 2)
			if mask.Router != nil {
				same.Router = func(logits torch.Tensor) { out = append(out, logits) }
			}
			// Passing a view avoids that autocast casts a leaf once for query, key and value
			// together, which would sum their gradients in lower precision.
			out[0] = layer.Forward(in[0].View(in[0].Shape()...), same)
			return out
		}
		var out []torch.Tensor
		switch {
		case s.run != nil:
			out = s.run(i, again, x, mask.Padding, mask.Rotary.cos, mask.Rotary.sin)
		case s.checkpointing && s.Training():
			out = torch.Checkpoint(again, x, mask.Padding, mask.Rotary.cos, mask.Rotary.sin)
		default:
			x = layer.Forward(x, mask)
			continue
		}
		x = out[0]
		for _, logits := range out[1:] {
			mask.Router(logits)
		}
	}
	return x
}

// RunLayers makes another function run the layers, for instance to shard their parameters over
// processes; nil: the stack itself again. It returns the layers. See shard.LayerRunner.
func (s *Stack[L]) RunLayers(run func(i int, f func(in []torch.Tensor) []torch.Tensor,
	inputs ...torch.Tensor) []torch.Tensor) (layers []any) {
	s.run = run
	for _, l := range s.Layer {
		layers = append(layers, l)
	}
	return layers
}

// SetGradientCheckpointing makes training keep only the inputs of each layer and recompute the
// rest in the backward pass: less memory, a third more time, the same bits. It is
// gradient_checkpointing_enable of transformers.
func (s *Stack[L]) SetGradientCheckpointing(on bool) { s.checkpointing = on }
