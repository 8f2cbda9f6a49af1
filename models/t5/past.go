package t5

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
	tokens = transformer.NewPast(len(s.Block), hidden.Size(0), capacity, c.NumHeads*c.KeyValueSize,
		torch.TensorOptions{DType: m.Shared.Weight.DType(), Device: hidden.Device()})
	past := make([]*transformer.PairPast, len(s.Block))
	for i, b := range s.Block {
		a := b.EncDec.EncDecAttention
		past[i] = transformer.NewPairPast(tokens.Recall(i), hidden, a.K, a.V)
	}
	source := memory{hidden, scores{keep: transformer.KeyMask(mask)}}
	if c.Attention != transformer.Eager { // the same for all blocks and tokens
		source.scores = scores{bias: source.scores.mask(c.NumHeads, 1, past[0].Keys)}
	}
	// For the last position; the bias of an earlier position is the end of it.
	bias := s.bias(capacity-1, 1, capacity)
	next = func(ids torch.Tensor) torch.Tensor {
		return torch.Return(func() torch.Tensor {
			x := s.Dropout.Forward(s.EmbedTokens.Forward(ids))
			n := tokens.Length() + 1
			self := scores{bias: bias.Narrow(3, capacity-n, n)}
			for i, b := range s.Block {
				x = b.forward(x, c.Attention, self, source, past[i])
			}
			tokens.Advance(1)
			return s.Dropout.Forward(s.FinalLayerNorm.Forward(x))
		})
	}
	return next, tokens
}
