package kto

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
)

// Sample is a prompt with a completion, as token ids. The completion has its end token.
// EncodeUnpairedPreference of package auto makes one.
type Sample struct {
	PromptIDs, CompletionIDs []int64
	Label                    bool // whether the completion is good
}

// Length is the number of tokens of the prompt and the completion.
func (s Sample) Length() int { return len(s.PromptIDs) + len(s.CompletionIDs) }

// Batch is n samples, padded to the same length.
type Batch struct {
	Completions Texts
	// Mismatched has each prompt with the completion of the sample before it, the first prompt with
	// the last completion. It has no rows for [APOZeroUnpaired].
	Mismatched Texts
	Labels     []bool
}

// Texts are n prompts with completions of L tokens.
type Texts struct {
	inputs.Batch
	Answers []bool // for each token, n·L: whether it belongs to a completion
}

// Collate cuts samples to TaskOptions.MaxLength, at the end, and pads them on the right to a batch. It
// refuses what the model cannot take. It is DataCollatorForUnpairedPreference of TRL.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	n := len(samples)
	for i, s := range samples {
		if reason := t.fault(s); reason != "" {
			return b, &inputs.SampleError{Package: "kto", Index: i, Reason: reason}
		}
		b.Labels = append(b.Labels, s.Label)
	}
	if b.Completions, err = t.texts(samples, func(i int) []int64 { return samples[i].CompletionIDs }); err != nil {
		return b, err
	}
	if t.options.LossType == KTO {
		b.Mismatched, err = t.texts(samples, func(i int) []int64 { return samples[(i+n-1)%n].CompletionIDs })
	}
	return b, err
}

// texts pads the prompts of samples with completions.
func (t *Task) texts(samples []Sample, completion func(i int) []int64) (b Texts, err error) {
	list := make([]inputs.Text, len(samples))
	for i, s := range samples {
		ids := append(append(make([]int64, 0, len(s.PromptIDs)+len(completion(i))), s.PromptIDs...), completion(i)...)
		list[i].InputIDs = ids[:min(len(ids), t.maxLength)]
	}
	if b.Batch, err = t.limits.Collate("kto", list, t.options.Padding); err != nil {
		return b, err
	}
	b.Answers = make([]bool, len(b.InputIDs.Values))
	for row, text := range list {
		for i := len(samples[row].PromptIDs); i < len(text.InputIDs); i++ {
			b.Answers[row*b.InputIDs.Width+i] = true
		}
	}
	return b, nil
}

// fault returns the reason why a sample is not accepted, or the empty string if it is.
func (t *Task) fault(s Sample) string {
	prompt := len(s.PromptIDs)
	switch {
	case len(s.CompletionIDs) == 0:
		return "CompletionIDs is empty; even an empty completion has the token that ends it"
	case prompt >= t.maxLength:
		return fmt.Sprintf("the prompt has %d tokens, and TaskOptions.MaxLength, %d, leaves nothing of the completion; "+
			"Task.Keep leaves such samples out", prompt, t.maxLength)
	case prompt == 0 && len(s.CompletionIDs) == 1:
		return "there is no prompt, and a completion of one token, which nothing predicts; want a token in front of it"
	}
	for _, ids := range [][]int64{s.PromptIDs, s.CompletionIDs} {
		ids = ids[:min(len(ids), t.maxLength)]
		if len(ids) > 0 {
			if reason := t.limits.Fault(inputs.Text{InputIDs: ids}); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// Keep leaves out the samples whose prompts fill TaskOptions.MaxLength, as TRL does: nothing of their
// completions would be learned.
func (t *Task) Keep(samples []Sample) []Sample {
	kept := make([]Sample, 0, len(samples))
	for _, s := range samples {
		if len(s.PromptIDs) < t.maxLength {
			kept = append(kept, s)
		}
	}
	return kept
}

// Length is the length of a sample as it is trained on: engine.Lengther.
func (t *Task) Length(s Sample) int { return min(s.Length(), t.maxLength) }

// CountTokens counts the tokens of a batch, and those that are not padding, without the mismatched
// completions.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Completions.Tokens() }
