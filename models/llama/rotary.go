package llama

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// RotaryEmbedding is LlamaRotaryEmbedding: how far a position rotates queries and keys.
type RotaryEmbedding struct {
	InvFreq      torch.Tensor `buffer:"inv_freq,nonpersistent"`       // [E/2]
	LongInvFreq  torch.Tensor `buffer:"long_inv_freq,nonpersistent"`  // for long texts; undefined: as for others
	LocalInvFreq torch.Tensor `buffer:"local_inv_freq,nonpersistent"` // for layers with a window; undefined: as for others

	short int64   // the most tokens of a text that is not long; 0: there are no long ones
	scale float64 // multiplies queries and keys; 1: of all but longrope
}

func newRotaryEmbedding(c Config) *RotaryEmbedding {
	size, r := c.Rope.turned(c.HeadDim), c.Rope
	e := &RotaryEmbedding{InvFreq: nn.Buffer(r.frequencies(size, r.ShortFactor)), scale: r.scale(c.MaxPositions)}
	if r.LongFactor != nil {
		e.short, e.LongInvFreq = int64(r.OriginalMaxPositions), nn.Buffer(r.frequencies(size, r.LongFactor))
	}
	if families[c.Type].twoRopes {
		e.LocalInvFreq = nn.Buffer(c.LocalRope.frequencies(c.HeadDim, nil))
	}
	return e
}

// at is for n tokens at positions, the first of them behind so many others, of hidden states with
// that dtype.
func (e *RotaryEmbedding) at(position, n int64, positions torch.Tensor, local bool,
	dtype torch.DType) transformer.Rotary {
	f := e.InvFreq
	switch end := position + n; {
	case e.LongInvFreq.Defined() && end > e.short:
		if f = e.LongInvFreq; position > 0 && position <= e.short {
			panic(torch.Errorf("llama.RotaryEmbedding", torch.ErrNotSupported, "a text has grown to %d tokens, and of more "+
				"than %d all are turned by long_factor; forget the past there (Backbone.Rereads)", end, e.short))
		}
	case local && e.LocalInvFreq.Defined():
		f = e.LocalInvFreq
	}
	return transformer.NewRotary(f, positions, e.scale, dtype)
}
