package grpo

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text/chat"
)

// Sample is a prompt. EncodePrompt and EncodeChatPrompt of package auto make one.
type Sample struct {
	PromptIDs []int64
	Prompt    string         // the text of PromptIDs, for reward functions
	Messages  []chat.Message // the conversation; nil: the prompt is a text
	Data      any            // anything else that reward functions need, such as the right answer
}

// Length is the number of tokens of the prompt.
func (s Sample) Length() int { return len(s.PromptIDs) }

// Batch holds prompts whose completions are generated together.
type Batch struct{ Samples []Sample }

// Collate makes a batch and refuses prompts that the model cannot complete.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	for i, s := range samples {
		reason := t.limits.Fault(inputs.Text{InputIDs: s.PromptIDs})
		if room := t.limits.MaxLength - int64(t.options.MaxCompletionLength); reason == "" && int64(len(s.PromptIDs)) > room {
			reason = fmt.Sprintf("the prompt has %d tokens, and the model has positions for %d, of which "+
				"TaskOptions.MaxCompletionLength takes %d; leave out longer prompts, or make it smaller", len(s.PromptIDs),
				t.limits.MaxLength, t.options.MaxCompletionLength)
		}
		if reason != "" {
			return b, &inputs.SampleError{Package: "grpo", Index: i, Reason: reason}
		}
	}
	return Batch{append([]Sample(nil), samples...)}, nil
}

// Order returns the order of the samples for trainer.Options.Order: RepeatSampler of TRL. The batch
// size is that of trainer.Options, times the number of processes. Each batch comes
// StepsPerGeneration·NumIterations times in a row. If that is 1, any other order works too.
func (t *Task) Order(batchSize int, seed uint64) data.Order {
	return data.RepeatSampler{Chunk: batchSize, Times: t.every(), Seed: seed}
}

// Length is the length of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return s.Length() }
