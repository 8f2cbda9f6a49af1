package auto

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/kto"
	"github.com/gotrainer/gotrainer/text/chat"
)

// KTOTask is the task of learning from completions that are good or bad: KTOTrainer of TRL. If the
// options name no reference, it is that of [CausalLanguageModel.DPOTask].
func (m *CausalLanguageModel) KTOTask(o kto.TaskOptions) (*kto.Task, error) {
	if o.Reference.Run == nil {
		var err error
		if o.Reference, err = m.reference(); err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
	}
	return kto.NewTask(m, o)
}

// EncodeUnpairedPreference makes a sample of a rated completion, as TRL does. Completions that are
// texts end with the tokenizer's eos_token. Where the completion begins is what
// [CausalLanguageModel.EncodePreference] says of answers. Nothing is cut.
func (m *CausalLanguageModel) EncodeUnpairedPreference(u chat.UnpairedPreference) (s kto.Sample, err error) {
	p := chat.Preference{Prompt: u.Prompt, Chosen: u.Completion, Tools: u.Tools, Variables: u.Variables}
	prompt, completion, err := m.divided(p, u.Completion)
	if err != nil {
		return s, err
	}
	return kto.Sample{PromptIDs: prompt, CompletionIDs: completion[0], Label: u.Label}, nil
}
