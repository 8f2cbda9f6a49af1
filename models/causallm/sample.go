package causallm

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
)

// Sample is a text as token ids.
type Sample struct {
	inputs.Text
	// Labels are the tokens to predict, each at its own position; [inputs.IgnoreIndex] where none
	// is learned. Nil: all of InputIDs that AttentionMask does not leave out.
	Labels []int64
	// Target is the text that should follow the prompt, for the metrics of TaskOptions.
	Target string
}

// Answer returns the last unbroken run of tokens to learn. In evaluations with TaskOptions.Write
// the model continues what is before it: InputIDs[:from].
func (s Sample) Answer() (from, to int) {
	if s.Labels == nil {
		return 0, len(s.InputIDs)
	}
	return answer(s.Labels)
}

func answer(labels []int64) (from, to int) {
	for to = len(labels); to > 0 && labels[to-1] == inputs.IgnoreIndex; {
		to--
	}
	for from = to; from > 0 && labels[from-1] != inputs.IgnoreIndex; {
		from--
	}
	return from, to
}

// Batch is some samples, padded to the same length.
type Batch struct {
	inputs.Batch
	Labels  data.Padded[int64] // inputs.IgnoreIndex in padding
	Targets []string
}

// prompts returns the tokens before the answers in a batch.
func (t *Task) prompts(b Batch) (inputs.Batch, error) {
	texts := make([]inputs.Text, b.InputIDs.Rows)
	for i := range texts {
		from, _ := answer(b.Labels.Row(i))
		for j, id := range b.InputIDs.Row(i)[:from] {
			if b.AttentionMask.Values == nil || b.AttentionMask.Row(i)[j] != 0 {
				texts[i].InputIDs = append(texts[i].InputIDs, id)
			}
		}
		if len(texts[i].InputIDs) == 0 {
			return inputs.Batch{}, &inputs.SampleError{Package: "causallm", Index: i, Reason: "it has no prompt to write " +
				"behind: want Labels with IgnoreIndex in front of those that are to be learned, or TaskOptions without Write"}
		}
	}
	return t.limits.Collate("causallm", texts, data.Padding{})
}

// Blocks joins texts end to end and cuts them into samples of size tokens. Tokens at the end that
// do not fill a block are dropped. To let the model tell texts apart, end each with the end-of-text
// token. It is group_texts of transformers' run_clm, which drops the remainder of every thousand
// texts.
func Blocks(texts [][]int64, size int) ([]Sample, error) {
	if size < 2 {
		return nil, fmt.Errorf("causallm: blocks of %d tokens; want at least 2, of which the first predicts the second", size)
	}
	all := make([]int64, 0, size)
	var blocks []Sample
	for _, text := range texts {
		for len(text) > 0 {
			n := min(size-len(all), len(text))
			all, text = append(all, text[:n]...), text[n:]
			if len(all) == size {
				blocks = append(blocks, Sample{Text: inputs.Text{InputIDs: all}})
				all = make([]int64, 0, size)
			}
		}
	}
	return blocks, nil
}

// Collate pads samples on the right to a batch and refuses what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts := make([]inputs.Text, len(samples))
	b.Targets = make([]string, len(samples))
	for i, s := range samples {
		texts[i], b.Targets[i] = s.Text, s.Target
	}
	if b.Batch, err = t.limits.Collate("causallm", texts, t.options.Padding); err != nil {
		return b, err
	}
	b.Labels = b.Filled(inputs.IgnoreIndex)
	for i, s := range samples {
		if reason := t.fault(s); reason != "" {
			return b, &inputs.SampleError{Package: "causallm", Index: i, Reason: reason}
		}
		labels := b.Labels.Row(i)
		if s.Labels != nil {
			copy(labels, s.Labels)
			continue
		}
		for j, id := range s.InputIDs {
			if s.AttentionMask == nil || s.AttentionMask[j] != 0 {
				labels[j] = id
			}
		}
	}
	return b, nil
}

func (t *Task) fault(s Sample) string {
	if s.Labels == nil {
		return ""
	}
	if len(s.Labels) != len(s.InputIDs) {
		return fmt.Sprintf("Labels has %d numbers for %d tokens; want one for each, IgnoreIndex (%d) for those that are "+
			"not to be learned", len(s.Labels), len(s.InputIDs), inputs.IgnoreIndex)
	}
	for i, label := range s.Labels {
		if label != inputs.IgnoreIndex && (label < 0 || label >= t.limits.VocabSize) {
			return fmt.Sprintf("label %d is %d; want an id below the model's vocabulary, %d, or IgnoreIndex (%d)", i, label,
				t.limits.VocabSize, inputs.IgnoreIndex)
		}
	}
	return ""
}
