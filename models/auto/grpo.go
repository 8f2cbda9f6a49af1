package auto

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// GRPOTask returns a task that trains the model by rewards: GRPOTrainer of TRL, or RLOOTrainer with
// TaskOptions.RLOO. If the options need a reference and have none, it is that of
// [CausalLanguageModel.DPOTask]. The model generates the completions itself, with the settings of
// the options. Of generation_config.json, only the end tokens are used.
func (m *CausalLanguageModel) GRPOTask(o grpo.TaskOptions) (*grpo.Task, error) {
	var err error
	if o.NeedsReference() && o.Reference.Run == nil {
		if o.Reference, err = m.reference(); err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
	}
	if o.Decode == nil && m.Tokenizer != nil {
		o.Decode = func(ids []int64) string { return m.Tokenizer.Decode(ids, nil) }
	}
	g, f, err := m.rolloutSettings(o)
	if err != nil {
		return nil, err
	}
	if o.EOSTokenIDs == nil {
		o.EOSTokenIDs = g.EOSTokenIDs
	}
	if o.Generate == nil {
		o.Generate = func(p engine.ForwardPass, prompts [][]int64, n int) ([][]int64, error) {
			return m.rollouts(p, prompts, n, g, f)
		}
	}
	return grpo.NewTask(m, o)
}

// rolloutSettings returns the checked settings for generating completions.
func (m *CausalLanguageModel) rolloutSettings(o grpo.TaskOptions) (g Generation, f generationFile, err error) {
	if f, err = m.generationFile(); err != nil {
		return g, f, err
	}
	f = generationFile{EOSTokenIDs: f.EOSTokenIDs}
	g = Generation{MaxNewTokens: cmp.Or(o.MaxCompletionLength, 512), Sample: true, Temperature: o.Temperature,
		TopK: cmp.Or(o.TopK, -1), TopP: o.TopP, MinP: o.MinP, RepetitionPenalty: o.RepetitionPenalty,
		EOSTokenIDs: o.EOSTokenIDs}
	if m.Tokenizer != nil {
		g.answerEnds = m.answerEnds()
	}
	resolved, err := g.resolved(f, m.Model, 0)
	g.EOSTokenIDs = resolved.EOSTokenIDs
	return g, f, err
}

// rollouts completes each prompt n times.
func (m *CausalLanguageModel) rollouts(p engine.ForwardPass, prompts [][]int64, n int, g Generation,
	f generationFile) ([][]int64, error) {
	longest, err := m.longestPrompt(prompts)
	if err != nil {
		return nil, err
	}
	g.NumReturnSequences = n
	if g, err = m.behind(f, longest, g); err != nil {
		return nil, err
	}
	return m.write(context.Background(), p, prompts, longest, g)
}

// AbsolutePositions reports whether padding before a text changes the positions of its tokens, as in
// GPT-2.
func (m *CausalLanguageModel) AbsolutePositions() bool { return m.blueprint.AbsolutePositions }

// EncodePrompt makes a sample of a text to complete. Nothing is cut.
func (m *CausalLanguageModel) EncodePrompt(prompt string) (s grpo.Sample, err error) {
	if m.Tokenizer == nil {
		return s, m.errNoTokenizer()
	}
	e, err := m.Tokenizer.EncodeInput(text.Single(prompt), nil)
	if err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	return grpo.Sample{PromptIDs: e.IDs, Prompt: prompt}, nil
}

// EncodeChatPrompt makes a sample of a conversation whose next message the model writes. Nothing is
// cut.
func (m *CausalLanguageModel) EncodeChatPrompt(c chat.Conversation) (s grpo.Sample, err error) {
	t, err := m.template()
	if err != nil {
		return s, err
	}
	prompt, err := t.Render(c, chat.Options{AddGenerationPrompt: true})
	if err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	e, err := m.Tokenizer.EncodeInput(text.Single(prompt), &text.EncodeOptions{NoSpecialTokens: true})
	if err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	return grpo.Sample{PromptIDs: e.IDs, Prompt: prompt, Messages: c.Messages}, nil
}
