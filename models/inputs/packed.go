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

	// PaddingFree reports whether to compute batches without their padding. Only then may rows join
	// several texts ([Batch.Joined]).
	PaddingFree() bool
	// ForwardPacked returns the logits that Forward returns for the padded batch: [B, labels] for
	// texts, [B, L, labels] for tokens, where those of padding may differ.
	ForwardPacked(p *Packed) torch.Tensor
}

// Packed is a batch without its padding: the T tokens of all texts, one text after the other,
// longer texts first. In this order, attention can compute texts of one length together.
type Packed struct {
	// IDs, Types and Positions are those of each token, [T]. Types are undefined if no text has
	// any. Positions start again with each text.
	IDs, Types, Positions torch.Tensor
	// Groups are the groups of texts of one length, in order.
	Groups []Group
	// Offsets are where the texts begin, followed by T: [texts+1] of int32, cu_seq_lens of
	// transformers.
	Offsets torch.Tensor

	first, last torch.Tensor // the first and last tokens of the rows, [B]
	places      torch.Tensor // index of each token in the padded batch, row*width + column, [T]
	rows, width int64
}

// Group is a number of texts of one length.
type Group struct{ Texts, Length int64 }

// MaxLength is the length of the longest text.
func (p *Packed) MaxLength() int64 { return p.Groups[0].Length }

// First selects the first token of each row, in the order of the batch: it maps [T, n] to [B, 1,
// n].
func (p *Packed) First(x torch.Tensor) torch.Tensor { return x.IndexSelect(0, p.first).Unsqueeze(1) }

// Last selects the last token of each row, in the order of the batch: it maps [T, n] to [B, n].
func (p *Packed) Last(x torch.Tensor) torch.Tensor { return x.IndexSelect(0, p.last) }

// Pad puts the tokens back to their places in the padded batch: it maps [T, n] to [B, L, n].
// Padding gets the value fill.
func (p *Packed) Pad(x torch.Tensor, fill float64) torch.Tensor {
	size := x.Size(1)
	o := torch.TensorOptions{DType: x.DType(), Device: x.Device()}
	return o.Full(fill, p.rows*p.width, size).IndexCopy_(0, p.places, x).View(p.rows, p.width, size)
}

// Forward runs a model on the batch, without padding if the model wants that.
func (b Batch) Forward(p engine.ForwardPass, m Model) torch.Tensor {
	if packed := b.Packed(p, m); packed != nil {
		return m.(PackedModel).ForwardPacked(packed)
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
	if PaddingFree(m) && b.spans() != nil {
		all = nonPadding
	}
	return all, nonPadding
}

// Packed is the batch without its padding on the device of a pass. It is nil if the model does not
// want that, and for a batch that is computed as usual: one without padding, and one that cannot be
// packed, because the mask of a text leaves out more than the text's end, or all of it.
func (b Batch) Packed(p engine.ForwardPass, m Model) *Packed {
	if !PaddingFree(m) {
		return nil
	}
	spans := b.spans()
	if spans == nil {
		return nil
	}
	return b.pack(p, m.Limits(), spans)
}

// PaddingFree reports whether a model is a [PackedModel] that is computed without padding now.
func PaddingFree(m any) bool {
	packer, ok := m.(PackedModel)
	return ok && packer.PaddingFree()
}

// span is where a text is in a batch.
type span struct{ row, from, length int }

// spans returns the texts of the batch, row by row, or nil if each row is a text and there is no
// padding, or if other tokens than those at the ends of rows are masked.
func (b Batch) spans() (spans []span) {
	if b.Joined != nil {
		for row, lengths := range b.Joined {
			from := 0
			for _, length := range lengths {
				spans = append(spans, span{row, from, int(length)})
				from += int(length)
			}
		}
		return spans
	}
	if b.AttentionMask.Values == nil {
		return nil
	}
	padded := false
	for row := range b.AttentionMask.Rows {
		mask := b.AttentionMask.Row(row)
		length := slices.Index(mask, 0)
		switch {
		case length < 0:
			length = len(mask)
		case length == 0 || slices.Contains(mask[length:], 1):
			return nil
		}
		spans = append(spans, span{row, 0, length})
		padded = padded || length < len(mask)
	}
	if !padded {
		return nil
	}
	return spans
}

// pack copies the tokens to the device of a pass, with only two copies.
func (b Batch) pack(p engine.ForwardPass, l Limits, spans []span) *Packed {
	slices.SortStableFunc(spans, func(i, k span) int { return cmp.Compare(k.length, i.length) })
	tokens := 0
	for _, s := range spans {
		tokens += s.length
	}
	rows, width := b.InputIDs.Rows, b.InputIDs.Width
	packed := &Packed{rows: int64(rows), width: int64(width)}
	fields := []func(to []int64, s span) []int64{
		func(to []int64, s span) []int64 { return append(to, b.InputIDs.Row(s.row)[s.from:][:s.length]...) },
		func(to []int64, s span) []int64 {
			return l.appendPositions(to, b.InputIDs.Row(s.row)[s.from:][:s.length])
		},
		func(to []int64, s span) []int64 {
			for column := range s.length {
				to = append(to, int64(s.row*width+s.from+column))
			}
			return to
		},
	}
	if b.TokenTypeIDs.Values != nil {
		fields = append(fields, func(to []int64, s span) []int64 {
			return append(to, b.TokenTypeIDs.Row(s.row)[s.from:][:s.length]...)
		})
	}
	values := make([]int64, 0, len(fields)*tokens)
	for _, field := range fields {
		for _, s := range spans {
			values = field(values, s)
		}
	}
	columns := engine.Input(p, values, int64(len(fields)), int64(tokens)).Unbind(0)
	packed.IDs, packed.Positions, packed.places = columns[0], columns[1], columns[2]
	if len(fields) > 3 {
		packed.Types = columns[3]
	}

	at := make([]int64, len(spans)+1+2*rows) // offsets, the first tokens of the rows, and their last ones
	offsets, first, last := at[:len(spans)+1], at[len(spans)+1:][:rows], at[len(spans)+1+rows:]
	ends := make([]int, rows) // of the rows, as far as they have been seen
	for k, s := range spans {
		length := int64(s.length)
		offsets[k+1] = offsets[k] + length
		if s.from == 0 {
			first[s.row] = offsets[k]
		}
		if end := s.from + s.length; end > ends[s.row] {
			ends[s.row], last[s.row] = end, offsets[k+1]-1
		}
		if n := len(packed.Groups); n > 0 && packed.Groups[n-1].Length == length {
			packed.Groups[n-1].Texts++
		} else {
			packed.Groups = append(packed.Groups, Group{1, length})
		}
	}
	copied := engine.Input(p, at, int64(len(at)))
	packed.Offsets = copied.Narrow(0, 0, int64(len(offsets))).ToDType(torch.Int32)
	packed.first = copied.Narrow(0, int64(len(offsets)), int64(rows))
	packed.last = copied.Narrow(0, int64(len(offsets)+rows), int64(rows))
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
func ValidateOptions(pkg string, m any, o engine.Options) error {
	switch {
	case !PaddingFree(m):
	case o.Graphs.Kinds > 0:
		return fmt.Errorf("%s: Options.Graphs is set, but the model is PaddingFree and the lengths of its texts, which a "+
			"graph holds for good, differ from batch to batch; use one of the two", pkg)
	case o.NEFTuneAlpha != 0:
		return fmt.Errorf("%s: Options.NEFTuneAlpha is %g, whose noise depends on the width of a batch, but the model "+
			"is PaddingFree and its batches have none; use one of the two", pkg, o.NEFTuneAlpha)
	}
	return nil
}
