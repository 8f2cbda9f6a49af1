package transformer

import "github.com/gotrainer/gotrainer/torch"

// Past is what the layers of a decoder keep of the tokens that they have seen, so that each is
// computed once: past_key_values of transformers. Its memory is taken when it is made and belongs to
// the scope of that call.
type Past struct {
	Length int64 // tokens seen so far

	layers []pastLayer
}

// pastLayer has room for the keys and values of all tokens, [B, capacity, hidden].
type pastLayer struct{ keys, values torch.Tensor }

// NewPast makes room for so many tokens of each of so many texts.
func NewPast(layers int, texts, capacity, hidden int64, o torch.TensorOptions) *Past {
	p := &Past{layers: make([]pastLayer, layers)}
	for i := range p.layers {
		p.layers[i] = pastLayer{o.Empty(texts, capacity, hidden), o.Empty(texts, capacity, hidden)}
	}
	return p
}

// Append takes the keys and values that a layer computed of new tokens, [B, n, hidden], and returns
// those of all tokens, [B, Length+n, hidden]: views that stay true. The caller adds n to Length when
// all layers have done so.
func (p *Past) Append(layer int, keys, values torch.Tensor) (allKeys, allValues torch.Tensor) {
	l, n := p.layers[layer], keys.Size(1)
	l.keys.Narrow(1, p.Length, n).Copy_(keys)
	l.values.Narrow(1, p.Length, n).Copy_(values)
	return l.keys.Narrow(1, 0, p.Length+n), l.values.Narrow(1, 0, p.Length+n)
}
