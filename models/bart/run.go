package bart

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Run runs the layers of an encoder or decoder, one after the other.
type Run struct {
	Layers        []*Layer
	Attention     transformer.Attention
	Layerdrop     float64 // the probability with which a layer is left out in training
	Training      bool
	Checkpointing bool // in training, keep only the inputs of each layer
}

// Memory is what a decoder attends to: hidden states, [B, L, hidden], and where they are not
// padding. In an encoder it is empty.
type Memory struct {
	Hidden torch.Tensor
	Mask   transformer.Mask
}

// Forward maps embeddings, [B, L, hidden], to hidden states of the same shape.
func (r Run) Forward(x torch.Tensor, self transformer.Mask, m Memory) torch.Tensor {
	for _, l := range r.Layers {
		if r.drops() {
			continue
		}
		run := func(x torch.Tensor, self transformer.Mask, m Memory) torch.Tensor {
			return torch.Return(func() torch.Tensor { return l.forward(x, r.Attention, self, m, nil) })
		}
		if !r.Checkpointing || !r.Training {
			x = run(x, self, m)
			continue
		}
		x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
			self, m := self, Memory{in[2], transformer.Mask{Padding: in[3]}}
			self.Padding = in[1]
			// Passing a view avoids that autocast casts a leaf once for query, key and value
			// together, which would sum their gradients in lower precision.
			return []torch.Tensor{run(in[0].View(in[0].Shape()...), self, m)}
		}, x, self.Padding, m.Hidden, m.Mask.Padding)[0]
	}
	return x
}

// drops reports whether a layer is left out. transformers draws a number for each layer in
// training, even if none is ever left out, and always on the CPU.
func (r Run) drops() (dropped bool) {
	if !r.Training {
		return false
	}
	torch.Scope(func() { dropped = torch.Rand().Item() < float64(float32(r.Layerdrop)) })
	return dropped
}

// Continue starts texts of a decoder, of at most capacity tokens. embed returns the embeddings,
// [B, 1, hidden], of the next token of each text, [B, 1], at a position; next maps these tokens to
// their hidden states, [B, 1, hidden]. It and the cached keys and values live in the scope in
// which Continue was called.
func (r Run) Continue(m Memory, capacity int64, embed func(ids torch.Tensor, position int64) torch.Tensor) (
	next func(ids torch.Tensor) torch.Tensor, tokens *transformer.Past) {
	own := r.Layers[0].SelfAttn.KProj.Weight
	tokens = transformer.NewPast(len(r.Layers), m.Hidden.Size(0), capacity, own.Size(0),
		torch.TensorOptions{DType: own.DType(), Device: m.Hidden.Device()})
	past := make([]*transformer.PairPast, len(r.Layers))
	for i, l := range r.Layers {
		past[i] = transformer.NewPairPast(tokens.Recall(i), m.Hidden, l.EncoderAttn.KProj, l.EncoderAttn.VProj)
	}
	next = func(ids torch.Tensor) torch.Tensor {
		return torch.Return(func() torch.Tensor {
			x := embed(ids, tokens.Length())
			for i, l := range r.Layers {
				x = l.forward(x, r.Attention, transformer.Mask{}, m, past[i])
			}
			tokens.Advance(1)
			return x
		})
	}
	return next, tokens
}
