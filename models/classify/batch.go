package classify

import "github.com/gotrainer/gotrainer/models/inputs"

// Sample is a text as token ids, special tokens included, with its label.
type Sample struct {
	InputIDs      []int64
	TokenTypeIDs  []int64 // 0 for the first text, 1 for the second; nil: all 0
	AttentionMask []int64 // 0 where InputIDs has padding already; nil: none

	Label   int64     // the class, for a single-label head
	Targets []float32 // one number for each logit, for regression and multi-label heads
}

// Batch is some samples, padded to the same length.
type Batch struct {
	inputs.Batch

	Labels  []int64   // for a single-label head
	Targets []float32 // else: Rows times labels
}

// SampleError is a sample that a model cannot take.
type SampleError = inputs.SampleError

// Collate pads samples to a batch. It refuses what the model cannot take, before it can fail inside
// an operator.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts := make([]inputs.Text, len(samples))
	for i, s := range samples {
		texts[i] = inputs.Text{InputIDs: s.InputIDs, TokenTypeIDs: s.TokenTypeIDs, AttentionMask: s.AttentionMask}
	}
	if b.Batch, err = t.limits.Collate("classify", texts, t.options.Padding); err != nil {
		return b, err
	}
	var a answers
	for i, s := range samples {
		if reason := t.fault(s.Label, s.Targets); reason != "" {
			return b, &SampleError{Package: "classify", Index: i, Reason: reason}
		}
		t.take(&a, s.Label, s.Targets)
	}
	b.Labels, b.Targets = a.labels, a.targets
	return b, nil
}

func (b Batch) answers() answers { return answers{b.InputIDs.Rows, b.Labels, b.Targets} }

// ignored is the label that cross-entropy leaves out.
const ignored = inputs.IgnoreIndex
