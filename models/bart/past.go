package bart

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Decode starts target texts of at most capacity tokens, for source texts that [Model.Encode] has
// mapped to hidden. next maps the next token of each text, [B, 1], to its hidden state, [B, 1,
// hidden]. It and the cached keys and values live in the scope in which Decode was called.
func (m *Model) Decode(hidden, mask torch.Tensor, capacity int64) (next func(ids torch.Tensor) torch.Tensor,
	tokens *transformer.Past) {
	c, s := m.config, m.Decoder
	tokens = transformer.NewPast(len(s.Layers), hidden.Size(0), capacity, c.HiddenSize,
		torch.TensorOptions{DType: m.Shared.Weight.DType(), Device: hidden.Device()})
	past := make([]*transformer.PairPast, len(s.Layers))
	for i, l := range s.Layers {
		past[i] = transformer.NewPairPast(tokens.Recall(i), hidden, l.EncoderAttn.KProj, l.EncoderAttn.VProj)
	}
	source := memory{hidden, m.keyMask(mask)}
	next = func(ids torch.Tensor) torch.Tensor {
		return torch.Return(func() torch.Tensor {
			x := s.embed(ids, tokens.Length())
			for i, l := range s.Layers {
				x = l.forward(x, c.Attention, transformer.Mask{}, source, past[i])
			}
			tokens.Advance(1)
			return s.finish(x)
		})
	}
	return next, tokens
}
