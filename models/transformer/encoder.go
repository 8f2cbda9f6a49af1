package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Encoder is a stack of layers.
type Encoder[L EncoderLayer] struct {
	nn.Mode
	Layer []L `module:"layer"`

	checkpointing, paddingFree bool
	run                        layerRunner // nil: layers are run here
}

type layerRunner = func(i int, f func(in []torch.Tensor) []torch.Tensor, inputs ...torch.Tensor) []torch.Tensor

// EncoderLayer maps hidden states to hidden states.
type EncoderLayer interface {
	Forward(x torch.Tensor, mask Mask) torch.Tensor
	FuseQKVProjections(on bool)
}

// NewEncoder makes n layers.
func NewEncoder[L EncoderLayer](n int64, layer func() L) *Encoder[L] {
	e := &Encoder[L]{Layer: make([]L, n)}
	for i := range e.Layer {
		e.Layer[i] = layer()
	}
	return e
}

// Forward maps hidden states, [B, L, hidden] or [T, hidden], to the same shape.
func (e *Encoder[L]) Forward(x torch.Tensor, mask Mask) torch.Tensor {
	for i, layer := range e.Layer {
		again := func(in []torch.Tensor) []torch.Tensor {
			same := mask
			same.Padding, same.Rotary = in[1], Rotary{in[2], in[3]}
			// A view, since autocast casts a leaf once for query, key and value together and would
			// sum their gradients in its own precision.
			return []torch.Tensor{layer.Forward(in[0].View(in[0].Shape()...), same)}
		}
		switch {
		case e.run != nil:
			x = e.run(i, again, x, mask.Padding, mask.Rotary.cos, mask.Rotary.sin)[0]
		case e.checkpointing && e.Training():
			x = torch.Checkpoint(again, x, mask.Padding, mask.Rotary.cos, mask.Rotary.sin)[0]
		default:
			x = layer.Forward(x, mask)
		}
	}
	return x
}

// RunLayers has another hand run the layers, as for parameters that are shared out among processes;
// nil: the encoder itself again. It returns the layers. See shard.LayerRunner.
func (e *Encoder[L]) RunLayers(run func(i int, f func(in []torch.Tensor) []torch.Tensor,
	inputs ...torch.Tensor) []torch.Tensor) (layers []any) {
	e.run = run
	for _, l := range e.Layer {
		layers = append(layers, l)
	}
	return layers
}

// SetGradientCheckpointing makes training keep only what enters each layer and compute the rest
// again in the backward pass: less memory, a third more time, the same bits. It is
// gradient_checkpointing_enable of transformers.
func (e *Encoder[L]) SetGradientCheckpointing(on bool) { e.checkpointing = on }

// SetPaddingFree makes the tasks of packages classify, tokenclass, question and maskedlm leave the
// padding of their batches out: the tokens of all texts, [T, hidden], go through the layers, and
// each text attends to itself. Logits, loss and gradients are those of the padded batch but for
// rounding; with dropout their distribution is, since other random numbers fall on the tokens. It is
// padding_free of TRL.
func (e *Encoder[L]) SetPaddingFree(on bool) { e.paddingFree = on }

// PaddingFree tells what [Encoder.SetPaddingFree] was told last.
func (e *Encoder[L]) PaddingFree() bool { return e.paddingFree }

// FuseQKVProjections makes each layer compute query, key and value as one matrix product. The
// parameters stay three, with their names. Outputs have the bits of three products or differ in
// their last ones, as gradients do: fuse_qkv_projections of diffusers.
func (e *Encoder[L]) FuseQKVProjections(on bool) {
	for _, layer := range e.Layer {
		layer.FuseQKVProjections(on)
	}
}
