package auto

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
)

// DPOTask is the task of learning from preferences: DPOTrainer of TRL. If the options name no
// reference, the reference is the model as it is now: a frozen copy or, with an adapter, the model
// without the adapter. If the adapter was trained before, it is the model with the adapter as it is
// now. With Precomputed, all samples have the log probabilities of the reference, and no copy is
// made.
func (m *CausalLanguageModel) DPOTask(o dpo.TaskOptions) (*dpo.Task, error) {
	if o.Reference.Run == nil && !o.Precomputed {
		var err error
		if o.Reference, err = m.reference(); err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
	}
	return dpo.NewTask(m, o)
}

// reference returns the model in its current state as a reference model.
func (m *CausalLanguageModel) reference() (r dpo.Reference, err error) {
	if m.adapter != nil {
		with, swaps, err := m.adapter.Snapshot()
		return dpo.Reference{Run: func(f func(dpo.Model)) { with(func() { f(m) }) }, Swaps: swaps}, err
	}
	if m.quantization != nil {
		return r, errors.New("the weights are quantized, so that they cannot be trained themselves; AddLoRA comes before " +
			"DPOTask, KTOTask and GRPOTask")
	}
	var frozen *CausalLanguageModel
	err = torch.Try(func() { frozen = m.frozen() })
	return dpo.Reference{Run: func(f func(dpo.Model)) { f(frozen) }}, err
}

// frozen returns a copy of the model that is not trained.
func (m *CausalLanguageModel) frozen() *CausalLanguageModel {
	c := newModel(m.blueprint, m.task, transformer.Builder{Undrawn: true})
	own := nn.StateDict(c)
	torch.NoGrad(func() {
		torch.Scope(func() {
			for i, t := range nn.StateDict(m) {
				own[i].Tensor.SetData_(t.Tensor.Detach().Clone())
			}
		})
	})
	nn.SetTraining(c, false)
	for _, p := range nn.Params(c) {
		p.Tensor.SetRequiresGrad(false)
	}
	return &CausalLanguageModel{c}
}

// Hidden maps token ids, [B, L], to the input of the output layer, [B, L, hidden]. The mask is that
// of [Model.Forward].
func (m *CausalLanguageModel) Hidden(ids, mask torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return m.backbone.Forward(ids, mask, torch.Tensor{}) })
}

// HiddenPacked is Hidden for a batch without its padding, where it is 0: [inputs.Packed].
func (m *CausalLanguageModel) HiddenPacked(p *inputs.Packed) torch.Tensor {
	return torch.Return(func() torch.Tensor { return p.Pad(m.backbone.ForwardPacked(p), 0) })
}

// Logits says how the logits of the output layer are transformed, such as scaled or soft-capped.
func (m *CausalLanguageModel) Logits() transformer.Logits { return m.blueprint.Logits }

// EncodePreference makes a sample of a preference, as TRL does. Answers that are texts end with the
// tokenizer's eos_token; those of conversations end as the chat template ends them. Prompt and
// answer are tokenized together, and the answer begins where the tokens first differ from those of
// the prompt alone. So if the last tokens of the prompt merge with what follows, or the template
// writes the prompt differently when it stands alone, the end of the prompt becomes part of the
// answer. Nothing is cut.
func (m *CausalLanguageModel) EncodePreference(p chat.Preference) (s dpo.Sample, err error) {
	prompt, answers, err := m.divided(p, p.Chosen, p.Rejected)
	if err != nil {
		return s, err
	}
	return dpo.Sample{PromptIDs: prompt, ChosenIDs: answers[0], RejectedIDs: answers[1]}, nil
}

// divided returns the tokens of a preference's prompt, and those of answers to it, which begin where
// the tokens of one of them first differ from those of the prompt alone.
func (m *Model) divided(p chat.Preference, answers ...chat.Content) (prompt []int64, rest [][]int64, err error) {
	if m.Tokenizer == nil {
		return nil, nil, m.errNoTokenizer()
	}
	if prompt, err = m.answerIDs(p, nil); err != nil {
		return nil, nil, err
	}
	n := len(prompt)
	for _, answer := range answers {
		ids, err := m.answerIDs(p, &answer)
		if err != nil {
			return nil, nil, err
		}
		rest = append(rest, ids)
		same := 0
		for same < min(n, len(ids)) && ids[same] == prompt[same] {
			same++
		}
		n = same
	}
	for i, ids := range rest {
		rest[i] = ids[n:]
	}
	return prompt[:n:n], rest, nil
}

// answerIDs returns the tokens of a preference's prompt with an answer; nil: of the prompt alone,
// which asks for an answer.
func (m *Model) answerIDs(p chat.Preference, answer *chat.Content) ([]int64, error) {
	s, o := p.Prompt.Text, &text.EncodeOptions{NoSpecialTokens: p.IsChat()}
	switch {
	case p.IsChat():
		t, err := m.template()
		if err != nil {
			return nil, err
		}
		c := p.Conversation(optional.Or(answer, chat.Content{}))
		if s, err = t.Render(c, chat.Options{AddGenerationPrompt: answer == nil}); err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
	case answer != nil:
		end, err := m.eosToken()
		if err != nil {
			return nil, err
		}
		if s += answer.Text; !strings.HasSuffix(answer.Text, end) {
			s += end
		}
	}
	e, err := m.Tokenizer.EncodeInput(text.Single(s), o)
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	return e.IDs, nil
}

// eosToken returns the token that ends a text: that of the tokenizer, or else that of config.json.
// It is empty for an encoder whose tokenizer ends texts by itself.
func (m *Model) eosToken() (string, error) {
	if end := m.specialTokens["eos_token"]; end != "" || m.blueprint.LanguageModel == "" {
		return end, nil
	}
	if ends := m.blueprint.EOSTokenIDs; len(ends) > 0 {
		if end, ok := m.Tokenizer.IDToToken(ends[0]); ok {
			return end, nil
		}
	}
	return "", fmt.Errorf("auto: no token ends a text, which an answer needs; want eos_token in %s, or eos_token_id in "+
		"config.json", tokenizerConfigName)
}
