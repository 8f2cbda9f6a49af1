package inputs

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// IgnoreIndex is the label that cross-entropy leaves out.
const IgnoreIndex = engine.IgnoreIndex

// Limits says which inputs a model takes.
type Limits struct {
	VocabSize       int64 // ids are below it
	TargetVocabSize int64 // ids of target texts are below it; zero: VocabSize
	TypeVocabSize   int64 // token types are below it; zero: the model has none and takes none but 0
	MaxLength       int64 // the largest number of tokens of a text
	PadTokenID      int64 // fills short rows of a batch

	// CountedPositions says that positions start at PadTokenID+1 and count only the tokens other
	// than PadTokenID, as in RoBERTa. Otherwise they start at 0.
	CountedPositions bool
}

// TargetVocab is the number of tokens of target texts.
func (l Limits) TargetVocab() int64 { return cmp.Or(l.TargetVocabSize, l.VocabSize) }

// Text is a text as token ids, special tokens included.
type Text struct {
	InputIDs      []int64
	TokenTypeIDs  []int64 // 0 for the first text, 1 for the second; nil: all 0
	AttentionMask []int64 // 0 where InputIDs has padding already; nil: none
}

// Of makes the input of a model with these limits from a tokenizer's encoding. It includes token
// types only if the model has more than one.
func (l Limits) Of(e *text.Encoding) Text {
	t := Text{InputIDs: e.IDs}
	if l.TypeVocabSize > 1 {
		t.TokenTypeIDs = e.TypeIDs
	}
	for _, keep := range e.AttentionMask {
		if keep == 0 {
			t.AttentionMask = e.AttentionMask
			break
		}
	}
	return t
}

// Batch is some texts, padded to the same length.
type Batch struct {
	InputIDs      data.Padded[int64]
	TokenTypeIDs  data.Padded[int64] // without values if no text has types
	AttentionMask data.Padded[int64] // without values if nothing is padded, which lets attention take a faster road

	// Joined has, for each row, the lengths of the texts that it joins, which do not attend to each
	// other; nil: each row is one text. Only a [PackedModel] that is PaddingFree takes such a batch.
	Joined [][]int64
}

// Tensors returns ids, mask and types, [B, L] each, on the CPU; a field without values is
// undefined. The mask is boolean. If it is defined, the model knows that there is padding, so
// transformer.PaddingMask need not look.
func (b Batch) Tensors() (ids, mask, types torch.Tensor) { return b.To(engine.ForwardPass{}) }

// To is [Batch.Tensors] on the device of a pass.
func (b Batch) To(p engine.ForwardPass) (ids, mask, types torch.Tensor) {
	return Matrix(p, b.InputIDs), Mask(p, b.AttentionMask.Values, b.AttentionMask.Shape()...),
		Matrix(p, b.TokenTypeIDs)
}

// Mask copies an attention mask, 0 for padding, to the device of a pass as booleans. It is
// undefined if there is no padding.
func Mask(p engine.ForwardPass, mask []int64, shape ...int64) torch.Tensor {
	if full(mask) {
		return torch.Tensor{}
	}
	keep := make([]bool, len(mask))
	for i, v := range mask {
		keep[i] = v != 0
	}
	return engine.Input(p, keep, shape...)
}

// Matrix copies a padded field to the device of a pass; one without values is undefined.
func Matrix(p engine.ForwardPass, m data.Padded[int64]) torch.Tensor {
	if m.Values == nil {
		return torch.Tensor{}
	}
	return engine.Input(p, m.Values, m.Shape()...)
}

// Tokens counts the tokens of a batch, with padding and without: engine.TokenCounter.
func (b Batch) Tokens() (all, nonPadding int64) {
	all = int64(len(b.InputIDs.Values))
	if b.AttentionMask.Values == nil {
		return all, all
	}
	for _, keep := range b.AttentionMask.Values {
		nonPadding += keep
	}
	return all, nonPadding
}

// SampleError is a sample that a model cannot take.
type SampleError struct {
	Package string // of the task
	Index   int    // in its batch
	Reason  string
}

func (e *SampleError) Error() string {
	return fmt.Sprintf("%s: sample %d of the batch: %s", e.Package, e.Index, e.Reason)
}

// Collate pads texts on the right to a batch and refuses what a model with these limits cannot
// take. Errors begin with the name of the task's package.
func (l Limits) Collate(pkg string, texts []Text, p data.Padding) (b Batch, err error) {
	typed, masked := false, false
	for i, t := range texts {
		if reason := l.Fault(t); reason != "" {
			return b, &SampleError{pkg, i, reason}
		}
		typed = typed || t.TokenTypeIDs != nil
		masked = masked || t.AttentionMask != nil
	}
	if b.InputIDs, err = data.PadField(texts, func(t Text) []int64 { return t.InputIDs }, l.PadTokenID,
		p); err != nil {
		return b, err
	}
	if int64(b.InputIDs.Width) > l.MaxLength {
		return b, fmt.Errorf("%s: Padding.Multiple makes rows of %d tokens, but the model has positions for %d", pkg,
			b.InputIDs.Width, l.MaxLength)
	}
	b.AttentionMask = b.InputIDs.Mask()
	for i, t := range texts {
		copy(b.AttentionMask.Row(i), t.AttentionMask)
	}
	if !masked && full(b.AttentionMask.Values) {
		b.AttentionMask = data.Padded[int64]{}
	}
	if typed {
		b.TokenTypeIDs = b.Filled(0)
		for i, t := range texts {
			copy(b.TokenTypeIDs.Row(i), t.TokenTypeIDs)
		}
	}
	return b, nil
}

// Filled returns a field of the batch's shape with the same value everywhere.
func (b Batch) Filled(value int64) data.Padded[int64] {
	f := data.Padded[int64]{Values: make([]int64, len(b.InputIDs.Values)), Rows: b.InputIDs.Rows,
		Width: b.InputIDs.Width, Lengths: b.InputIDs.Lengths}
	if value != 0 {
		for i := range f.Values {
			f.Values[i] = value
		}
	}
	return f
}

// CheckPadding refuses a padding that a model with these limits cannot take.
func (l Limits) CheckPadding(pkg string, p data.Padding) error {
	switch {
	case p.Left:
		return fmt.Errorf("%s: TaskOptions.Padding.Left is set, but these models count positions from the left; pad on "+
			"the right", pkg)
	case int64(p.Length) > l.MaxLength:
		return fmt.Errorf("%s: TaskOptions.Padding.Length is %d, but the model has positions for %d tokens", pkg,
			p.Length, l.MaxLength)
	}
	return nil
}

// TextLength returns the most tokens of a text that TaskOptions.MaxLength asks for, as in TRL: 0 is
// 1024, or what the model takes if that is less, and a negative number is what the model takes. It is
// at least least.
func (l Limits) TextLength(pkg string, asked, least int) (int, error) {
	switch takes := int(l.MaxLength); {
	case asked == 0:
		return min(1024, takes), nil
	case asked < 0:
		return takes, nil
	case asked < least || asked > takes:
		return 0, fmt.Errorf("%s: TaskOptions.MaxLength is %d; want %d to %d, for which the model has positions, or 0 for %d",
			pkg, asked, least, takes, min(1024, takes))
	}
	return asked, nil
}

func full(mask []int64) bool {
	for _, keep := range mask {
		if keep == 0 {
			return false
		}
	}
	return true
}

// Fault says why a model with these limits cannot take a text; empty: it can.
func (l Limits) Fault(t Text) string {
	n := len(t.InputIDs)
	switch {
	case n == 0:
		return "InputIDs is empty: the text has no tokens, not even special ones"
	case int64(n) > l.MaxLength:
		return fmt.Sprintf("the text has %d tokens, but the model has positions for %d; truncate it where it is "+
			"tokenized", n, l.MaxLength)
	case t.TokenTypeIDs != nil && len(t.TokenTypeIDs) != n:
		return fmt.Sprintf("TokenTypeIDs has %d numbers for %d tokens", len(t.TokenTypeIDs), n)
	case t.AttentionMask != nil && len(t.AttentionMask) != n:
		return fmt.Sprintf("AttentionMask has %d numbers for %d tokens", len(t.AttentionMask), n)
	}
	for i, id := range t.InputIDs {
		if id < 0 || id >= l.VocabSize {
			return fmt.Sprintf("token %d has the id %d, but the vocabulary of the model has %d: is the tokenizer "+
				"that of the model?", i, id, l.VocabSize)
		}
	}
	for i, id := range t.TokenTypeIDs {
		if id < 0 || id >= max(1, l.TypeVocabSize) {
			return fmt.Sprintf("token %d has the type %d, but the model has %d types", i, id, max(1, l.TypeVocabSize))
		}
	}
	for i, keep := range t.AttentionMask {
		if keep != 0 && keep != 1 {
			return fmt.Sprintf("AttentionMask of token %d is %d; want 0 or 1", i, keep)
		}
	}
	return ""
}
