package t5

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// past is what a decoder caches: the keys and values of the encoder's text and of the tokens seen
// so far.
type past struct {
	memory memory
	tokens *transformer.Past
	blocks []pastBlock
}

// pastBlock is the cache of one block. A nil *pastBlock means that texts are processed as a whole,
// without a cache.
type pastBlock struct {
	recall       transformer.Recall // of the decoder's own tokens
	keys, values torch.Tensor       // of the encoder's text
}

// own returns a function that computes the keys and values of all tokens so far; x are the hidden
// states of the newest ones.
func (p *pastBlock) own(a *Attention, x torch.Tensor) func() (keys, values torch.Tensor) {
	return func() (keys, values torch.Tensor) {
		keys, values = a.K.Forward(x), a.V.Forward(x)
		if p != nil {
			keys, values = p.recall(keys, values)
		}
		return keys, values
	}
}

// other returns a function that gives the keys and values of the encoder's text.
func (p *pastBlock) other(a *Attention, hidden torch.Tensor) func() (keys, values torch.Tensor) {
	return func() (keys, values torch.Tensor) {
		if p != nil {
			return p.keys, p.values
		}
		return a.K.Forward(hidden), a.V.Forward(hidden)
	}
}

// Decode starts target texts of at most capacity tokens, for source texts that [Model.Encode] has
// mapped to hidden. next maps the next token of each text, [B, 1], to its hidden state, [B, 1,
// hidden]. It and the cached keys and values live in the scope in which Decode was called.
func (m *Model) Decode(hidden, mask torch.Tensor, capacity int64) (next func(ids torch.Tensor) torch.Tensor,
	tokens *transformer.Past) {
	c := m.config
	p := &past{memory: memory{hidden, scores{keep: keepOf(mask)}}, blocks: make([]pastBlock, len(m.Decoder.Block)),
		tokens: transformer.NewPast(len(m.Decoder.Block), hidden.Size(0), capacity, c.NumHeads*c.KeyValueSize,
			torch.TensorOptions{DType: m.Shared.Weight.DType(), Device: hidden.Device()})}
	for i, b := range m.Decoder.Block {
		a := b.EncDec.EncDecAttention
		p.blocks[i] = pastBlock{p.tokens.Recall(i), a.K.Forward(hidden), a.V.Forward(hidden)}
	}
	if keys := p.blocks[0].keys; c.Attention != transformer.Eager { // the same for all blocks and tokens
		p.memory.scores = scores{bias: p.memory.scores.mask(c.NumHeads, 1, keys)}
	}
	// For the last position; the bias of an earlier position is the end of it.
	bias := m.Decoder.bias(capacity-1, 1, capacity)
	next = func(ids torch.Tensor) torch.Tensor {
		return torch.Return(func() torch.Tensor {
			s := m.Decoder
			x := s.Dropout.Forward(s.EmbedTokens.Forward(ids))
			n := p.tokens.Length() + 1
			self := scores{bias: bias.Narrow(3, capacity-n, n)}
			for i, b := range s.Block {
				x = b.forward(x, c.Attention, self, p.memory, &p.blocks[i])
			}
			p.tokens.Advance(1)
			return s.Dropout.Forward(s.FinalLayerNorm.Forward(x))
		})
	}
	return next, p.tokens
}
