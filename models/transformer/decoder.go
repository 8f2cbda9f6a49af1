package transformer

import "github.com/gotrainer/gotrainer/torch"

// Decoder holds the layers of a decoder. A model embeds it with the tag module:"-" and has the
// layers under their name in transformers' model.
type Decoder[L DecoderLayer] struct {
	Stack[L]

	width int64 // width of a token's keys, and of its values
}

// DecoderLayer is a layer that can continue a text.
type DecoderLayer interface {
	StackLayer
	// Continue is Forward for tokens that attend to what recall returns.
	Continue(x torch.Tensor, mask Mask, recall Recall) torch.Tensor
}

// Recall returns what tokens attend to, [B, seen+n, width], given the keys and values of these n
// tokens, [B, n, width].
type Recall func(keys, values torch.Tensor) (allKeys, allValues torch.Tensor)

// NoPast is the Recall for texts that are processed as a whole.
func NoPast(keys, values torch.Tensor) (allKeys, allValues torch.Tensor) { return keys, values }

// Heads is Recall for keys and values of shape [B, heads, n, E], as [SplitHeads] returns them. A
// token that comes alone attends only to the given number of last tokens, including itself; 0: all.
// A nil Recall returns its arguments.
func (r Recall) Heads(keys, values torch.Tensor, window int64) (allKeys, allValues torch.Tensor) {
	if r == nil {
		return keys, values
	}
	shape := keys.Shape()
	n, size := shape[2], shape[3]
	join := func(x torch.Tensor) torch.Tensor { return x.Transpose(1, 2).Reshape(shape[0], n, shape[1]*size) }
	keys, values = r(join(keys), join(values))
	if seen := keys.Size(1); window > 0 && n == 1 && seen > window {
		keys, values = keys.Narrow(1, seen-window, window), values.Narrow(1, seen-window, window)
	}
	return SplitHeads(keys, size), SplitHeads(values, size)
}

// NewDecoder makes n layers whose keys and values have the given width.
func NewDecoder[L DecoderLayer](n, width int64, layer func() L) Decoder[L] {
	return Decoder[L]{newStack(n, layer), width}
}

// NewPast allocates a past for the given numbers of texts and of tokens per text, on the device
// and in the dtype of weight.
func (d *Decoder[L]) NewPast(weight torch.Tensor, texts, capacity int64) *Past {
	return NewPast(len(d.Layer), texts, capacity, d.width,
		torch.TensorOptions{DType: weight.DType(), Device: weight.Device()})
}

// Continue maps the hidden states of the next tokens of texts, [B, L, hidden], to the same shape,
// and adds them to the past. L is 1 unless the past is empty.
func (d *Decoder[L]) Continue(x torch.Tensor, mask Mask, past *Past) torch.Tensor {
	return d.ContinueEach(x, func(int) Mask { return mask }, past)
}

// ContinueEach is Continue for layers that each have their own mask.
func (d *Decoder[L]) ContinueEach(x torch.Tensor, maskOf func(layer int) Mask, past *Past) torch.Tensor {
	n := x.Size(1)
	for i, layer := range d.Layer {
		x = layer.Continue(x, maskOf(i), past.Recall(i))
	}
	past.Advance(n)
	return x
}

// Filler returns an id to pad short texts in a batch. It is masked, so any id in the vocabulary
// will do: the padding token if there is one, or the token that ends a text. The files of some
// models name ids outside the vocabulary.
func Filler(padding *int64, ends []int64, vocabulary int64) int64 {
	if padding != nil {
		ends = []int64{*padding}
	}
	if len(ends) == 0 || ends[0] >= vocabulary {
		return 0
	}
	return ends[0]
}
