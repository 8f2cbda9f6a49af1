package causallm

import (
	"errors"
	"fmt"
	"slices"

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
	// Lengths are those of the texts that the sample joins, which do not attend to each other and
	// whose first tokens are not learned (seq_lengths of TRL, see [Pack]); nil: it is one text.
	Lengths []int64
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
	if b.Joined != nil {
		return inputs.Batch{}, errors.New("causallm: TaskOptions.Write is set, but samples join several texts " +
			"(Sample.Lengths); evaluate with the texts themselves")
	}
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
	joined := false
	for i, s := range samples {
		texts[i], b.Targets[i] = s.Text, s.Target
		joined = joined || s.Lengths != nil
	}
	if b.Batch, err = t.limits.Collate("causallm", texts, t.options.Padding); err != nil {
		return b, err
	}
	b.Labels = b.Filled(inputs.IgnoreIndex)
	for i, s := range samples {
		if reason := t.fault(s); reason != "" {
			return b, &inputs.SampleError{Package: "causallm", Index: i, Reason: reason}
		}
		if joined {
			b.Joined = append(b.Joined, s.texts())
		}
		s.copyLabels(b.Labels.Row(i), inputs.PaddingFree(t.model))
	}
	return b, nil
}

// copyLabels writes the labels of a sample into a row. Without padding, the first tokens of texts,
// which nothing predicts, are not counted either.
func (s Sample) copyLabels(row []int64, paddingFree bool) {
	if s.Labels != nil {
		copy(row, s.Labels)
	} else {
		for i, id := range s.InputIDs {
			if s.AttentionMask == nil || s.AttentionMask[i] != 0 {
				row[i] = id
			}
		}
	}
	if !paddingFree {
		return
	}
	first := int64(0)
	for _, length := range s.texts() {
		row[first] = inputs.IgnoreIndex
		first += length
	}
}

// texts returns the lengths of the texts of a sample.
func (s Sample) texts() []int64 {
	if s.Lengths != nil {
		return s.Lengths
	}
	return []int64{int64(len(s.InputIDs))}
}

func (t *Task) fault(s Sample) string {
	if s.Lengths != nil {
		if reason := s.lengthsFault(inputs.PaddingFree(t.model)); reason != "" {
			return reason
		}
	}
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

// lengthsFault says why a model cannot take a sample that joins texts.
func (s Sample) lengthsFault(paddingFree bool) string {
	sum := int64(0)
	for i, length := range s.Lengths {
		if length < 1 {
			return fmt.Sprintf("Lengths[%d] is %d; want the number of tokens of a text", i, length)
		}
		sum += length
	}
	switch {
	case sum != int64(len(s.InputIDs)):
		return fmt.Sprintf("Lengths add up to %d, and there are %d tokens", sum, len(s.InputIDs))
	case slices.Contains(s.AttentionMask, 0):
		return "it joins texts (Lengths), and AttentionMask leaves tokens out"
	case !paddingFree:
		return "it joins several texts (Lengths), which only a model without padding keeps apart: SetPaddingFree(true) of " +
			"the model, or Pack with Wrapped"
	}
	return ""
}
