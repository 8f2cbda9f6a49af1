package classify

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
)

// Sample is a text as token ids, special tokens included, with its label.
type Sample struct {
	InputIDs      []int64
	TokenTypeIDs  []int64 // 0 for the first text, 1 for the second; nil: all 0
	AttentionMask []int64 // 0 where InputIDs has padding already; nil: none

	Label   int64     // the class: of a single-label head
	Targets []float32 // one number for each logit: of regressions and multi-label heads
}

// Batch is some samples, padded to the same length.
type Batch struct {
	InputIDs      data.Padded[int64]
	TokenTypeIDs  data.Padded[int64] // without values if no sample has types
	AttentionMask data.Padded[int64] // without values if nothing is padded, which lets attention take a faster road

	Labels  []int64   // of a single-label head
	Targets []float32 // else: Rows times labels
}

// Tensors are the arguments of [Model.Forward], on the CPU: for a loop of one's own,
// model.Forward(b.Tensors()).
func (b Batch) Tensors() (ids, mask, types torch.Tensor) {
	return matrix(b.InputIDs), matrix(b.AttentionMask), matrix(b.TokenTypeIDs)
}

// matrix makes a tensor of a padded batch; an empty one stays undefined.
func matrix(p data.Padded[int64]) torch.Tensor {
	if p.Values == nil {
		return torch.Tensor{}
	}
	return torch.From(p.Values, p.Shape()...)
}

// SampleError is a sample that a model cannot take.
type SampleError struct {
	Index  int // in its batch
	Reason string
}

func (e *SampleError) Error() string {
	return fmt.Sprintf("classify: sample %d of the batch: %s", e.Index, e.Reason)
}

// Collate pads samples to a batch and refuses what the model cannot take, before it can fail inside
// an operator.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	typed, masked := false, false
	for i, s := range samples {
		if reason := t.fault(s); reason != "" {
			return b, &SampleError{i, reason}
		}
		typed = typed || s.TokenTypeIDs != nil
		masked = masked || s.AttentionMask != nil
	}
	p := t.options.Padding
	if b.InputIDs, err = data.PadField(samples, func(s Sample) []int64 { return s.InputIDs }, t.limits.PadTokenID,
		p); err != nil {
		return b, err
	}
	if int64(b.InputIDs.Width) > t.limits.MaxLength {
		return b, fmt.Errorf("classify: Padding.Multiple makes rows of %d tokens, but the model has positions for %d",
			b.InputIDs.Width, t.limits.MaxLength)
	}
	b.AttentionMask = b.InputIDs.Mask()
	for i, s := range samples {
		copy(b.AttentionMask.Row(i), s.AttentionMask)
	}
	if !masked && full(b.AttentionMask.Values) {
		b.AttentionMask = data.Padded[int64]{}
	}
	if typed {
		b.TokenTypeIDs = data.Padded[int64]{Values: make([]int64, len(b.InputIDs.Values)), Rows: b.InputIDs.Rows,
			Width: b.InputIDs.Width, Lengths: b.InputIDs.Lengths}
		for i, s := range samples {
			copy(b.TokenTypeIDs.Row(i), s.TokenTypeIDs)
		}
	}
	for _, s := range samples {
		if t.head.ProblemType == SingleLabel {
			b.Labels = append(b.Labels, s.Label)
		} else {
			b.Targets = append(b.Targets, s.Targets...)
		}
	}
	return b, nil
}

func full(mask []int64) bool {
	for _, keep := range mask {
		if keep == 0 {
			return false
		}
	}
	return true
}

// fault says what is wrong with a sample; empty: nothing.
func (t *Task) fault(s Sample) string {
	n := len(s.InputIDs)
	switch {
	case n == 0:
		return "InputIDs is empty; even an empty text has its special tokens"
	case int64(n) > t.limits.MaxLength:
		return fmt.Sprintf("the text has %d tokens, but the model has positions for %d; truncate it where it is "+
			"tokenized", n, t.limits.MaxLength)
	case s.TokenTypeIDs != nil && len(s.TokenTypeIDs) != n:
		return fmt.Sprintf("TokenTypeIDs has %d numbers for %d tokens", len(s.TokenTypeIDs), n)
	case s.AttentionMask != nil && len(s.AttentionMask) != n:
		return fmt.Sprintf("AttentionMask has %d numbers for %d tokens", len(s.AttentionMask), n)
	}
	for i, id := range s.InputIDs {
		if id < 0 || id >= t.limits.VocabSize {
			return fmt.Sprintf("token %d has the id %d, but the vocabulary of the model has %d: is the tokenizer "+
				"that of the model?", i, id, t.limits.VocabSize)
		}
	}
	for i, id := range s.TokenTypeIDs {
		if id < 0 || id >= max(1, t.limits.TypeVocabSize) {
			return fmt.Sprintf("token %d has the type %d, but the model has %d types", i, id,
				max(1, t.limits.TypeVocabSize))
		}
	}
	for i, keep := range s.AttentionMask {
		if keep != 0 && keep != 1 {
			return fmt.Sprintf("AttentionMask of token %d is %d; want 0 or 1", i, keep)
		}
	}
	return t.labelFault(s)
}

// ignored is the label that cross-entropy leaves out.
const ignored = -100

func (t *Task) labelFault(s Sample) string {
	if t.head.ProblemType == SingleLabel {
		if (s.Label < 0 || s.Label >= t.head.NumLabels) && s.Label != ignored {
			return fmt.Sprintf("Label is %d; want 0 to %d, or %d to leave the sample out of the loss", s.Label,
				t.head.NumLabels-1, ignored)
		}
		return ""
	}
	if int64(len(s.Targets)) != t.head.NumLabels {
		return fmt.Sprintf("Targets has %d numbers; a head for %s with %d labels wants as many", len(s.Targets),
			t.head.ProblemType, t.head.NumLabels)
	}
	for i, v := range s.Targets {
		if v != v || t.head.ProblemType == MultiLabel && (v < 0 || v > 1) {
			return fmt.Sprintf("Targets[%d] is %g; want a number, and for several labels one from 0 to 1", i, v)
		}
	}
	return ""
}
