package llama

import (
	"slices"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// RotaryEmbedding is LlamaRotaryEmbedding: how far a position rotates queries and keys.
type RotaryEmbedding struct {
	InvFreq     torch.Tensor `buffer:"inv_freq,nonpersistent"`      // [E/2]
	LongInvFreq torch.Tensor `buffer:"long_inv_freq,nonpersistent"` // for long texts; undefined: as for others
	// For layers with a sliding window; undefined if they use InvFreq too.
	LocalInvFreq torch.Tensor `buffer:"local_inv_freq,nonpersistent"`

	short int64   // longest text that is rotated with the short factors; 0 without longrope
	scale float64 // factor of queries and keys; 1 without longrope
}

func newRotaryEmbedding(c Config) *RotaryEmbedding {
	size, r := c.Rope.rotaryDims(c.HeadDim), c.Rope
	e := &RotaryEmbedding{InvFreq: nn.Buffer(r.frequencies(size, r.ShortFactor)), scale: r.scale(c.MaxPositions)}
	if r.LongFactor != nil {
		e.short, e.LongInvFreq = int64(r.OriginalMaxPositions), nn.Buffer(r.frequencies(size, r.LongFactor))
	}
	if families[c.Type].twoRopes {
		e.LocalInvFreq = nn.Buffer(c.LocalRope.frequencies(c.HeadDim, nil))
	}
	return e
}

// at returns the rotary embedding for the last n tokens, at the given positions, of texts with the
// given lengths: one number for all, or one for each. dtype is the dtype of the hidden states.
func (e *RotaryEmbedding) at(lengths []int64, n int64, positions torch.Tensor, local bool,
	dtype torch.DType) transformer.Rotary {
	f := e.InvFreq
	switch {
	case e.LongInvFreq.Defined():
		f = e.byLength(lengths, n)
	case local && e.LocalInvFreq.Defined():
		f = e.LocalInvFreq
	}
	return transformer.NewRotary(f, positions, e.scale, dtype)
}

// byLength returns the frequencies of texts with the given numbers of tokens, of which n are new:
// [E/2], or [B, 1, 1, E/2] if some texts are long and others are not.
func (e *RotaryEmbedding) byLength(lengths []int64, n int64) torch.Tensor {
	long := make([]bool, len(lengths))
	for i, length := range lengths {
		if seen := length - n; length > e.short && seen > 0 && seen <= e.short {
			panic(torch.Errorf("llama.RotaryEmbedding", torch.ErrNotSupported, "a text has grown to %d tokens, and beyond "+
				"%d long_factor applies to all of them; discard the cache at that point (Backbone.Rereads)", length, e.short))
		}
		long[i] = length > e.short
	}
	switch {
	case !slices.Contains(long, true):
		return e.InvFreq
	case !slices.Contains(long, false):
		return e.LongInvFreq
	}
	of := torch.From(long, int64(len(long)), 1, 1, 1).ToDevice(e.InvFreq.Device())
	return torch.Where(of, e.LongInvFreq, e.InvFreq)
}
