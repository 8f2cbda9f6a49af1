package transformer

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Past holds the keys and values of the tokens that the layers of a decoder have processed, so
// that each is computed once: past_key_values of transformers. Its memory is allocated by
// [Decoder.NewPast] and belongs to the scope of that call.
type Past struct {
	length int64 // tokens seen so far, including padding

	layers []pastLayer
	texts  torch.Tensor // [B, capacity]: false where a text has padding at its start; undefined if no text has
	pads   torch.Tensor // [B, 1]: the amount of padding
	each   []int64      // the same on the host; nil if there is no padding
}

// pastLayer has space for the keys and values of all tokens, [B, capacity, width].
type pastLayer struct{ keys, values torch.Tensor }

// NewPast allocates a past for the given numbers of texts and of tokens per text, with keys of the
// given width.
func NewPast(layers int, texts, capacity, width int64, o torch.TensorOptions) *Past {
	p := &Past{layers: make([]pastLayer, layers)}
	for i := range p.layers {
		p.layers[i] = pastLayer{o.Empty(texts, capacity, width), o.Empty(texts, capacity, width)}
	}
	return p
}

// Recall adds the tokens of a layer to the past and returns views of all of it, which stay valid.
// If the past is not empty, tokens are added one at a time.
func (p *Past) Recall(layer int) Recall {
	return func(keys, values torch.Tensor) (allKeys, allValues torch.Tensor) {
		l, n := p.layers[layer], keys.Size(1)
		if p.length > 0 && n != 1 {
			panic(torch.Errorf("transformer.Past", torch.ErrInvalid, "%d tokens follow a past of %d; want one at a time", n,
				p.length))
		}
		l.keys.Narrow(1, p.length, n).Copy_(keys)
		l.values.Narrow(1, p.length, n).Copy_(values)
		return l.keys.Narrow(1, 0, p.length+n), l.values.Narrow(1, 0, p.length+n)
	}
}

// Reorder replaces row i by the given row, for beams of which some end and others are duplicated;
// nil changes nothing.
func (p *Past) Reorder(rows []int64) {
	var changed, taken []int64
	for i, row := range rows {
		if row != int64(i) {
			changed, taken = append(changed, int64(i)), append(taken, row)
		}
	}
	if len(changed) == 0 {
		return
	}
	torch.Scope(func() {
		n, device := int64(len(changed)), p.layers[0].keys.Device()
		to, from := torch.From(changed, n).ToDevice(device), torch.From(taken, n).ToDevice(device)
		for _, l := range p.layers {
			for _, t := range []torch.Tensor{l.keys, l.values} {
				seen := t.Narrow(1, 0, p.length)
				seen.IndexCopy_(0, to, seen.IndexSelect(0, from))
			}
		}
	})
}

// Pad sets how many tokens of padding each text starts with, before it is processed. A token's
// position is the number of tokens of its text before it.
func (p *Past) Pad(pads []int64) {
	if !slices.ContainsFunc(pads, func(n int64) bool { return n > 0 }) {
		return
	}
	keys := p.layers[0].keys
	p.each = pads
	p.pads = torch.From(pads, int64(len(pads)), 1).ToDevice(keys.Device())
	p.texts = torch.TensorOptions{Device: keys.Device()}.Arange(0, keys.Size(1), 1).Ge(p.pads)
}

// Next returns, for the next n tokens of each text, the attention mask of all tokens up to them,
// [B, seen+n], which is undefined if none is padding, and their positions, [n], or [B, n] if there
// is padding.
func (p *Past) Next(n int64) (mask, positions torch.Tensor) {
	positions = torch.TensorOptions{Device: p.layers[0].keys.Device()}.Arange(p.length, p.length+n, 1)
	if !p.texts.Defined() {
		return mask, positions
	}
	return p.texts.Narrow(1, 0, p.length+n), positions.Sub(p.pads).Clamp(0, nil)
}

// Lengths returns how many tokens each text has including its next n: one number if all have the
// same, otherwise one for each, without its padding.
func (p *Past) Lengths(n int64) []int64 {
	if p.each == nil {
		return []int64{p.length + n}
	}
	lengths := make([]int64, len(p.each))
	for i, pad := range p.each {
		lengths[i] = p.length + n - pad
	}
	return lengths
}

// Forget empties the past, to process the texts from their start again.
func (p *Past) Forget() { p.length = 0 }

// Advance records that all layers have recalled the given number of further tokens of each text.
func (p *Past) Advance(n int64) { p.length += n }

// Length returns how many tokens of each text have been processed.
func (p *Past) Length() int64 { return p.length }
