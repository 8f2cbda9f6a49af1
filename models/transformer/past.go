package transformer

import "github.com/gotrainer/gotrainer/torch"

// Past is what the layers of a decoder keep of the tokens that they have seen, so that each is
// computed once: past_key_values of transformers. Its memory is taken when it is made and belongs to
// the scope of that call.
type Past struct {
	Length int64 // tokens seen so far

	layers []pastLayer
}

// pastLayer has room for the keys and values of all tokens, [B, capacity, width].
type pastLayer struct{ keys, values torch.Tensor }

// NewPast makes room for so many tokens of each of so many texts.
func NewPast(layers int, texts, capacity, width int64, o torch.TensorOptions) *Past {
	p := &Past{layers: make([]pastLayer, layers)}
	for i := range p.layers {
		p.layers[i] = pastLayer{o.Empty(texts, capacity, width), o.Empty(texts, capacity, width)}
	}
	return p
}

// Recall returns what tokens attend to, [B, seen+n, width], given the keys and values of these n
// tokens, [B, n, width].
type Recall func(keys, values torch.Tensor) (allKeys, allValues torch.Tensor)

// NoPast is of texts that are seen whole.
func NoPast(keys, values torch.Tensor) (allKeys, allValues torch.Tensor) { return keys, values }

// Recall adds the tokens of a layer to the past, and returns views of all of it that stay true. Where
// there is a past they come one at a time. The caller adds their number to Length when all layers
// have done so.
func (p *Past) Recall(layer int) Recall {
	return func(keys, values torch.Tensor) (allKeys, allValues torch.Tensor) {
		l, n := p.layers[layer], keys.Size(1)
		if p.Length > 0 && n != 1 {
			panic(torch.Errorf("transformer.Past", torch.ErrInvalid, "%d tokens follow a past of %d; want one at a time", n,
				p.Length))
		}
		l.keys.Narrow(1, p.Length, n).Copy_(keys)
		l.values.Narrow(1, p.Length, n).Copy_(values)
		return l.keys.Narrow(1, 0, p.Length+n), l.values.Narrow(1, 0, p.Length+n)
	}
}

// Filler is an id for the ends of short texts in a batch. It is masked, so any of the vocabulary will
// do: padding, if there is one, or what ends a text. The files of some models name ids outside of
// the vocabulary.
func Filler(padding *int64, ends []int64, vocabulary int64) int64 {
	if padding != nil {
		ends = []int64{*padding}
	}
	if len(ends) == 0 || ends[0] >= vocabulary {
		return 0
	}
	return ends[0]
}
