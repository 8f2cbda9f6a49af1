package classify

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
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
	inputs.Batch

	Labels  []int64   // of a single-label head
	Targets []float32 // else: Rows times labels
}

// SampleError is a sample that a model cannot take.
type SampleError = inputs.SampleError

// Collate pads samples to a batch and refuses what the model cannot take, before it can fail inside
// an operator.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts := make([]inputs.Text, len(samples))
	for i, s := range samples {
		texts[i] = inputs.Text{InputIDs: s.InputIDs, TokenTypeIDs: s.TokenTypeIDs, AttentionMask: s.AttentionMask}
	}
	if b.Batch, err = t.limits.Collate("classify", texts, t.options.Padding); err != nil {
		return b, err
	}
	for i, s := range samples {
		if reason := t.labelFault(s); reason != "" {
			return b, &SampleError{Package: "classify", Index: i, Reason: reason}
		}
		if t.head.ProblemType == SingleLabel {
			b.Labels = append(b.Labels, s.Label)
		} else {
			b.Targets = append(b.Targets, s.Targets...)
		}
	}
	return b, nil
}

// ignored is the label that cross-entropy leaves out.
const ignored = inputs.IgnoreIndex

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
