package reward

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
)

// Sample has two texts as token ids, including special tokens.
type Sample struct {
	ChosenIDs, RejectedIDs []int64

	// Margin is how much larger the reward of the chosen text should be; zero: any amount.
	Margin float32
}

// Length is the number of tokens of the longer text.
func (s Sample) Length() int { return max(len(s.ChosenIDs), len(s.RejectedIDs)) }

// Batch is n samples in 2n rows, padded to the same length: the chosen texts, then the rejected
// ones.
type Batch struct {
	inputs.Batch
	Margins []float32 // of the n samples; nil: all are 0
}

// Pairs returns the number of samples.
func (b Batch) Pairs() int { return b.InputIDs.Rows / 2 }

// Collate pads samples on the right to a batch, and refuses samples that the model cannot take. It is
// DataCollatorForPreference of TRL.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	n := len(samples)
	texts, margins, given := make([]inputs.Text, 2*n), make([]float32, n), false
	for i, s := range samples {
		texts[i].InputIDs, texts[n+i].InputIDs = s.ChosenIDs, s.RejectedIDs
		if reason := t.fault(s); reason != "" {
			return b, &inputs.SampleError{Package: "reward", Index: i, Reason: reason}
		}
		margins[i] = s.Margin
		given = given || s.Margin != 0
	}
	if given {
		b.Margins = margins
	}
	b.Batch, err = t.limits.Collate("reward", texts, t.options.Padding)
	return b, err
}

// fault returns the reason why a sample is refused; empty means accepted.
func (t *Task) fault(s Sample) string {
	if n := s.Length(); n > t.maxLength {
		return fmt.Sprintf("the longer text has %d tokens; want at most TaskOptions.MaxLength, %d: Task.Keep leaves such "+
			"samples out", n, t.maxLength)
	}
	if s.Margin-s.Margin != 0 { // NaN and infinities
		return fmt.Sprintf("Margin is %g; want a finite number", s.Margin)
	}
	if reason := t.limits.Fault(inputs.Text{InputIDs: s.ChosenIDs}); reason != "" {
		return "ChosenIDs: " + reason
	}
	if reason := t.limits.Fault(inputs.Text{InputIDs: s.RejectedIDs}); reason != "" {
		return "RejectedIDs: " + reason
	}
	return ""
}

// Keep drops samples that have a text longer than TaskOptions.MaxLength, as TRL does.
func (t *Task) Keep(samples []Sample) []Sample {
	kept := make([]Sample, 0, len(samples))
	for _, s := range samples {
		if s.Length() <= t.maxLength {
			kept = append(kept, s)
		}
	}
	return kept
}

// Length returns the length of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return s.Length() }

// CountTokens returns the number of tokens that the model computes for a batch, and how many of them
// are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Batch.CountTokens(t.model) }
