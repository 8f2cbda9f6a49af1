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
	s := m.Decoder
	source := Memory{hidden, m.keyMask(mask)}
	continued, tokens := s.run(m.config.Attention).Continue(source, capacity, s.embed)
	next = func(ids torch.Tensor) torch.Tensor {
		return torch.Return(func() torch.Tensor { return s.finish(continued(ids)) })
	}
	return next, tokens
}
