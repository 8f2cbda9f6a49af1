package dpo

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
)

// Sample is a prompt with two answers, as token ids. Each answer has its end token.
type Sample struct {
	PromptIDs, ChosenIDs, RejectedIDs []int64

	// Reference has the reference's log probabilities of the answers, which [Task.Precompute] fills
	// in. Nil: they are computed in each step.
	Reference *LogProbs
}

// LogProbs are the log probabilities of two answers.
type LogProbs struct{ Chosen, Rejected float32 }

// Length is the number of tokens of the prompt and the longer answer.
func (s Sample) Length() int { return len(s.PromptIDs) + max(len(s.ChosenIDs), len(s.RejectedIDs)) }

// Batch is n samples in 2n rows, padded to the same length: each prompt with its chosen answer,
// then each prompt with its rejected answer.
type Batch struct {
	inputs.Batch
	Answers   []bool    // for each token, 2n·L: whether it belongs to an answer
	Reference []float32 // the reference's log probabilities of the 2n answers; nil: not computed yet
}

// Pairs is how many samples there are.
func (b Batch) Pairs() int { return b.InputIDs.Rows / 2 }

// Collate cuts samples to TaskOptions.MaxLength and pads them on the right to a batch. It refuses
// what the model cannot take. It is DataCollatorForPreference of TRL.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts, prompts := make([]inputs.Text, 2*len(samples)), make([]int, 2*len(samples))
	for i, s := range samples {
		for k, answer := range [][]int64{s.ChosenIDs, s.RejectedIDs} {
			row := k*len(samples) + i
			ids := make([]int64, 0, len(s.PromptIDs)+len(answer))
			ids = append(append(ids, s.PromptIDs...), answer...)
			texts[row].InputIDs, prompts[row] = t.cut(ids, len(s.PromptIDs))
			if reason := t.fault(texts[row], prompts[row], s, answer); reason != "" {
				return b, &inputs.SampleError{Package: "dpo", Index: i, Reason: reason}
			}
		}
	}
	if b.Batch, err = t.limits.Collate("dpo", texts, t.options.Padding); err != nil {
		return b, err
	}
	b.Answers = make([]bool, len(b.InputIDs.Values))
	for row, text := range texts {
		for i := prompts[row]; i < len(text.InputIDs); i++ {
			b.Answers[row*b.InputIDs.Width+i] = true
		}
	}
	b.Reference, err = references(samples)
	return b, err
}

// cut cuts a prompt with an answer to the longest that is taken, and returns how much of the prompt
// is left.
func (t *Task) cut(ids []int64, prompt int) (kept []int64, keptPrompt int) {
	over := len(ids) - t.maxLength
	switch {
	case over <= 0:
		return ids, prompt
	case t.options.KeepEnd:
		return ids[over:], max(0, prompt-over)
	}
	return ids[:t.maxLength], min(prompt, t.maxLength)
}

// fault returns the reason why a row is not accepted, or the empty string if it is.
func (t *Task) fault(text inputs.Text, prompt int, s Sample, answer []int64) string {
	switch left := len(text.InputIDs) - prompt; {
	case len(answer) == 0:
		return "ChosenIDs or RejectedIDs is empty; even an empty answer has the token that ends it"
	case left == 0:
		return fmt.Sprintf("the prompt has %d tokens, and TaskOptions.MaxLength, %d, leaves nothing of the answers; "+
			"Task.Keep leaves such samples out", len(s.PromptIDs), t.maxLength)
	case prompt == 0 && left == 1:
		return "there is no prompt, and an answer of one token, which nothing predicts; want a token in front of it"
	}
	return t.limits.Fault(text)
}

// Keep leaves out the samples whose prompts fill TaskOptions.MaxLength, as TRL does: nothing of
// their answers would be learned.
func (t *Task) Keep(samples []Sample) []Sample {
	kept := make([]Sample, 0, len(samples))
	for _, s := range samples {
		if t.options.KeepEnd || len(s.PromptIDs) < t.maxLength {
			kept = append(kept, s)
		}
	}
	return kept
}

// references are the log probabilities that samples bring along, if they do.
func references(samples []Sample) ([]float32, error) {
	var chosen, rejected []float32
	for i, s := range samples {
		if (s.Reference == nil) != (samples[0].Reference == nil) {
			return nil, &inputs.SampleError{Package: "dpo", Index: i, Reason: "some samples of the batch have Reference and " +
				"others do not; want it of all or of none"}
		}
		if s.Reference != nil {
			chosen, rejected = append(chosen, s.Reference.Chosen), append(rejected, s.Reference.Rejected)
		}
	}
	return append(chosen, rejected...), nil
}

// Length is the length of a sample as it is trained on: engine.Lengther.
func (t *Task) Length(s Sample) int { return min(s.Length(), t.maxLength) }

// CountTokens counts the tokens of a batch, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Tokens() }
