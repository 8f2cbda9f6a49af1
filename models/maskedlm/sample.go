package maskedlm

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text"
)

// Sample is a text as token ids, special tokens included.
type Sample struct {
	inputs.Text
	SpecialTokensMask []int64     // 1 for special tokens, which are never masked
	Offsets           []text.Span // of each token in its text; needed only for Masking.WholeWord
}

// Batch is some samples, padded to the same length.
type Batch struct {
	inputs.Batch
	Keep  data.Padded[int64] // 1 where no mask may begin: special tokens, padding, and of whole words all but the first
	Words data.Padded[int64] // the word of each token, -1 for special ones; empty except for whole words
}

// Collate pads samples to a batch. It refuses what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts := make([]inputs.Text, len(samples))
	for i, s := range samples {
		texts[i] = s.Text
	}
	if b.Batch, err = t.limits.Collate("maskedlm", texts, t.options.Padding); err != nil {
		return b, err
	}
	b.Keep = b.Filled(1)
	if t.masking.WholeWord {
		b.Words = b.Filled(-1)
	}
	for i, s := range samples {
		if reason := t.fault(s); reason != "" {
			return b, &inputs.SampleError{Package: "maskedlm", Index: i, Reason: reason}
		}
		copy(b.Keep.Row(i), s.SpecialTokensMask)
		if t.masking.WholeWord {
			wholeWords(s, b.Words.Row(i), b.Keep.Row(i))
		}
	}
	return b, nil
}

func (t *Task) fault(s Sample) string {
	switch n := len(s.InputIDs); {
	case len(s.SpecialTokensMask) != n:
		return fmt.Sprintf("SpecialTokensMask has %d numbers for %d tokens; the tokenizer's encoding has it",
			len(s.SpecialTokensMask), n)
	case t.masking.WholeWord && len(s.Offsets) != n:
		return fmt.Sprintf("Offsets has %d stretches for %d tokens, and Masking.WholeWord finds words by them",
			len(s.Offsets), n)
	}
	return ""
}

// wholeWords numbers the words. A token starts a new word if there is a gap between it and its
// predecessor, or if the predecessor is a special token. keep is set to 1 for all tokens of a word
// except the first.
func wholeWords(s Sample, words, keep []int64) {
	word := int64(0)
	for i := range s.InputIDs {
		if s.SpecialTokensMask[i] != 0 {
			continue
		}
		if i == 0 || s.Offsets[i].Start != s.Offsets[i-1].End || s.SpecialTokensMask[i-1] != 0 {
			word++
		} else {
			keep[i] = 1
		}
		words[i] = word
	}
}
