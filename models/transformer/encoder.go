package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Encoder is a stack of layers.
type Encoder[L EncoderLayer] struct {
	nn.Mode
	Layer []L `module:"layer"`

	checkpointing bool
}

// EncoderLayer maps hidden states to hidden states.
type EncoderLayer interface {
	Forward(x, mask torch.Tensor) torch.Tensor
}

// NewEncoder makes n layers.
func NewEncoder[L EncoderLayer](n int64, layer func() L) *Encoder[L] {
	e := &Encoder[L]{Layer: make([]L, n)}
	for i := range e.Layer {
		e.Layer[i] = layer()
	}
	return e
}

// Forward maps [B, L, hidden] to the same shape. The mask is that of [PaddingMask].
func (e *Encoder[L]) Forward(x, mask torch.Tensor) torch.Tensor {
	for _, layer := range e.Layer {
		if e.checkpointing && e.Training() {
			x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
				// A view, since autocast casts a leaf once for query, key and value together and
				// would sum their gradients in its own precision.
				return []torch.Tensor{layer.Forward(in[0].View(in[0].Shape()...), in[1])}
			}, x, mask)[0]
		} else {
			x = layer.Forward(x, mask)
		}
	}
	return x
}

// SetGradientCheckpointing makes training keep only what enters each layer and compute the rest
// again in the backward pass: less memory, a third more time, the same bits. It is
// gradient_checkpointing_enable of transformers.
func (e *Encoder[L]) SetGradientCheckpointing(on bool) { e.checkpointing = on }
