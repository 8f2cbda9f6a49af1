package inputs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model computes logits of padded batches.
type Model interface {
	// Forward maps token ids, [B, L], to logits. Mask and types, [B, L], may be undefined.
	Forward(ids, mask, types torch.Tensor) torch.Tensor
	Limits() Limits
}

// AuxModel is a [Model] whose loss may have a part that does not depend on labels, such as what
// balances the experts of a mixture. [Batch.ForwardAux] uses it.
type AuxModel interface {
	Model

	HasAuxLoss() bool
	// ForwardAux is Forward that also returns this part, a scalar; undefined: there is none.
	ForwardAux(ids, mask, types torch.Tensor) (logits, aux torch.Tensor)
}

// PackedModel is a [Model] that can compute a batch without its padding: padding_free of TRL,
// DataCollatorWithFlattening of transformers. [Batch.Forward] uses it.
type PackedModel interface {
	Model

	// PaddingFree reports whether to compute batches without their padding.
	PaddingFree() bool
	// ForwardPacked returns the logits that Forward returns for the padded batch: [B, labels] for
	// texts, [B, L, labels] for tokens, where those of padding may differ.
	ForwardPacked(p *Packed) torch.Tensor
}

// Packed is a batch without its padding: the T tokens of all texts, one text after the other,
// longer texts first. In this order, attention can compute texts of one length together.
type Packed struct {
	// IDs, Types and Positions are those of each token, [T]. Types are undefined if no text has
	// any.
	IDs, Types, Positions torch.Tensor
	// Groups are the groups of texts of one length, in order.
	Groups []Group
	// Offsets are where the texts begin, followed by T: [B+1] of int32, cu_seq_lens of
	// transformers.
	Offsets torch.Tensor

	first       torch.Tensor // where the text of each row starts, [B]
	places      torch.Tensor // index of each token in the padded batch, row*width + column, [T]
	rows, width int64
}

// Group is a number of texts of one length.
type Group struct{ Texts, Length int64 }

// MaxLength is the length of the longest text.
func (p *Packed) MaxLength() int64 { return p.Groups[0].Length }

// First selects the first token of each text, in the order of the batch: it maps [T, n] to [B, 1,
// n].
func (p *Packed) First(x torch.Tensor) torch.Tensor { return x.IndexSelect(0, p.first).Unsqueeze(1) }

// Pad puts the tokens back to their places in the padded batch: it maps [T, n] to [B, L, n].
// Padding gets the value fill.
func (p *Packed) Pad(x torch.Tensor, fill float64) torch.Tensor {
	size := x.Size(1)
	o := torch.TensorOptions{DType: x.DType(), Device: x.Device()}
	return o.Full(fill, p.rows*p.width, size).IndexCopy_(0, p.places, x).View(p.rows, p.width, size)
}

// Forward runs a model on the batch, without padding if the model wants that. A batch without
// padding is computed as usual. So is one that cannot be packed, because the mask of a text leaves
// out more than the text's end, or all of it.
func (b Batch) Forward(p engine.ForwardPass, m Model) torch.Tensor {
	if packer, ok := m.(PackedModel); ok && packer.PaddingFree() {
		if lengths := b.packable(); lengths != nil {
			return packer.ForwardPacked(b.pack(p, m.Limits(), lengths))
		}
	}
	return m.Forward(b.To(p))
}

// ForwardAux is Forward that also returns the part of the loss that an [AuxModel] has by itself, a
// scalar; undefined: there is none.
func (b Batch) ForwardAux(p engine.ForwardPass, m Model) (logits, aux torch.Tensor) {
	if a, ok := m.(AuxModel); ok && a.HasAuxLoss() {
		return a.ForwardAux(b.To(p))
	}
	return b.Forward(p, m), torch.Tensor{}
}

// CountTokens counts the tokens that a model computes, and those that are not padding:
// engine.TokenCounter.
func (b Batch) CountTokens(m Model) (all, nonPadding int64) {
	all, nonPadding = b.Tokens()
	if packer, ok := m.(PackedModel); ok && packer.PaddingFree() && b.packable() != nil {
		all = nonPadding
	}
	return all, nonPadding
}

// packable returns the lengths of the texts, or nil if there is no padding, or if other tokens than
// those at the ends of texts are masked.
func (b Batch) packable() []int64 {
	if b.AttentionMask.Values == nil {
		return nil
	}
	lengths, padded := make([]int64, b.AttentionMask.Rows), false
	for row := range lengths {
		mask := b.AttentionMask.Row(row)
		length := slices.Index(mask, 0)
		switch {
		case length < 0:
			length = len(mask)
		case length == 0 || slices.Contains(mask[length:], 1):
			return nil
		}
		lengths[row] = int64(length)
		padded = padded || length < len(mask)
	}
	if !padded {
		return nil
	}
	return lengths
}

// pack copies the tokens to the device of a pass, with only two copies.
func (b Batch) pack(p engine.ForwardPass, l Limits, lengths []int64) *Packed {
	rows := make([]int, len(lengths))
	tokens := int64(0)
	for row, length := range lengths {
		rows[row] = row
		tokens += length
	}
	slices.SortStableFunc(rows, func(i, k int) int { return cmp.Compare(lengths[k], lengths[i]) })

	fields := int64(3)
	if b.TokenTypeIDs.Values != nil {
		fields++
	}
	values := make([]int64, 0, fields*tokens)
	packed := &Packed{rows: int64(b.InputIDs.Rows), width: int64(b.InputIDs.Width)}
	for _, row := range rows {
		values = append(values, b.InputIDs.Row(row)[:lengths[row]]...)
	}
	for _, row := range rows {
		values = l.appendPositions(values, b.InputIDs.Row(row)[:lengths[row]])
	}
	texts := make([]int64, 2*len(rows)+1) // where the texts start, and the same in the order of the rows
	first := texts[len(rows)+1:]
	for k, row := range rows {
		length := lengths[row]
		for column := range length {
			values = append(values, int64(row*b.InputIDs.Width)+column)
		}
		texts[k+1], first[row] = texts[k]+length, texts[k]
		if n := len(packed.Groups); n > 0 && packed.Groups[n-1].Length == length {
			packed.Groups[n-1].Texts++
		} else {
			packed.Groups = append(packed.Groups, Group{1, length})
		}
	}
	if b.TokenTypeIDs.Values != nil {
		for _, row := range rows {
			values = append(values, b.TokenTypeIDs.Row(row)[:lengths[row]]...)
		}
	}
	columns := engine.Input(p, values, fields, tokens).Unbind(0)
	packed.IDs, packed.Positions, packed.places = columns[0], columns[1], columns[2]
	if fields > 3 {
		packed.Types = columns[3]
	}
	at := engine.Input(p, texts, int64(len(texts)))
	packed.Offsets = at.Narrow(0, 0, int64(len(rows))+1).ToDType(torch.Int32)
	packed.first = at.Narrow(0, int64(len(rows))+1, int64(len(rows)))
	return packed
}

// appendPositions appends the positions of the tokens of a text.
func (l Limits) appendPositions(to, ids []int64) []int64 {
	counted := l.PadTokenID
	for i, id := range ids {
		switch {
		case !l.CountedPositions:
			to = append(to, int64(i))
		case id == l.PadTokenID:
			to = append(to, l.PadTokenID)
		default:
			counted++
			to = append(to, counted)
		}
	}
	return to
}

// ValidateOptions refuses options that do not work with a model that leaves out padding.
func ValidateOptions(pkg string, m Model, o engine.Options) error {
	packer, ok := m.(PackedModel)
	switch {
	case !ok || !packer.PaddingFree():
	case o.Graphs.Kinds > 0:
		return fmt.Errorf("%s: Options.Graphs is set, but the model is PaddingFree and the lengths of its texts, which a "+
			"graph holds for good, differ from batch to batch; use one of the two", pkg)
	case o.NEFTuneAlpha != 0:
		return fmt.Errorf("%s: Options.NEFTuneAlpha is %g, whose noise depends on the width of a batch, but the model "+
			"is PaddingFree and its batches have none; use one of the two", pkg, o.NEFTuneAlpha)
	}
	return nil
}
