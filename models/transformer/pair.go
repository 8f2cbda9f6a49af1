package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// PairPast is what a layer of a decoder that attends to an encoder's text caches. A nil *PairPast
// means that texts are processed as a whole, without a cache.
type PairPast struct {
	Keys, Values torch.Tensor // of the encoder's text

	recall Recall // of the decoder's own tokens
}

// NewPairPast makes the cache of a layer that computes keys and values of the decoder's tokens and,
// from the encoder's hidden states, [B, L, hidden], those of the encoder's text.
func NewPairPast(own Recall, hidden torch.Tensor, key, value *nn.Linear) *PairPast {
	return &PairPast{key.Forward(hidden), value.Forward(hidden), own}
}

// Own returns a function that computes the keys and values of all of the decoder's tokens so far; x
// are the hidden states of the newest ones.
func (p *PairPast) Own(x torch.Tensor, key, value *nn.Linear) func() (keys, values torch.Tensor) {
	return func() (keys, values torch.Tensor) {
		keys, values = key.Forward(x), value.Forward(x)
		if p != nil {
			keys, values = p.recall(keys, values)
		}
		return keys, values
	}
}

// Other returns a function that gives the keys and values of the encoder's text.
func (p *PairPast) Other(hidden torch.Tensor, key, value *nn.Linear) func() (keys, values torch.Tensor) {
	return func() (keys, values torch.Tensor) {
		if p != nil {
			return p.Keys, p.Values
		}
		return key.Forward(hidden), value.Forward(hidden)
	}
}
