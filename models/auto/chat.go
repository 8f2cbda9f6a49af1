package auto

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
)

// EncodeChat makes a sample of a conversation. Only what the assistant says is learned
// ([chat.Template.RenderAssistant]); a token that is partly the assistant's is learned too. The
// sample is cut to what the model takes. If nothing of the assistant is left, no label of the
// sample counts. Its Target is the last answer as [CausalLanguageModel.Chat] would return it.
func (m *CausalLanguageModel) EncodeChat(c chat.Conversation) (s causallm.Sample, err error) {
	t, err := m.template()
	if err != nil {
		return s, err
	}
	written, spans, err := t.RenderAssistant(c)
	if err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	e, err := m.encodeWith(text.Single(written), &text.EncodeOptions{NoSpecialTokens: true})
	if err != nil {
		return s, err
	}
	return m.learned(e, spans), nil
}

// learned returns a sample in which only the tokens within spans have labels.
func (m *Model) learned(e *text.Encoding, spans []text.Span) causallm.Sample {
	s := causallm.Sample{Text: m.Limits().Of(e), Labels: make([]int64, len(e.IDs))}
	for i, id := range e.IDs {
		s.Labels[i] = inputs.IgnoreIndex
		for len(spans) > 0 && spans[0].End <= e.Offsets[i].Start {
			spans = spans[1:]
		}
		if len(spans) > 0 && e.Offsets[i].End > spans[0].Start {
			s.Labels[i] = id
		}
	}
	from, to := s.Answer()
	answer, ends := s.InputIDs[from:to], m.answerEnds()
	if end := slices.IndexFunc(answer, func(id int64) bool { return slices.Contains(ends, id) }); end >= 0 {
		answer = answer[:end]
	}
	s.Target = m.Tokenizer.Decode(answer, nil)
	return s
}

// answerEnds returns the tokens that end an answer, in addition to those of generation_config.json.
func (m *Model) answerEnds() []int64 {
	ends, special := slices.Clone(m.blueprint.EOSTokenIDs), m.specialTokens
	if t := m.ChatTemplate; t != nil && t.SpecialTokens != nil {
		special = t.SpecialTokens
	}
	if id, ok := m.Tokenizer.TokenToID(special["eos_token"]); ok {
		ends = append(ends, id)
	}
	return ends
}

// Chat answers the last message of a conversation. If that message is the assistant's, Chat
// continues it, as transformers' pipeline does, and returns what it adds. An answer ends with a
// token of Generation.EOSTokenIDs; nil: those of config.json and generation_config.json, and the
// tokenizer's eos_token. Otherwise it works like [CausalLanguageModel.Generate]. Set MaxNewTokens:
// few answers fit into the default of 20 tokens.
func (m *CausalLanguageModel) Chat(ctx context.Context, c chat.Conversation, g Generation) (string, error) {
	prompt, err := m.asked(c)
	if err != nil {
		return "", err
	}
	e, err := m.Tokenizer.Encode(prompt, &text.EncodeOptions{NoSpecialTokens: true})
	if err != nil {
		return "", fmt.Errorf("auto: %w", err)
	}
	g.answerEnds = m.answerEnds()
	added, err := m.GenerateIDs(ctx, e.IDs, g)
	return m.Tokenizer.Decode(added, nil), err
}

// asked renders a conversation whose last message is to be answered or, if it is the assistant's,
// continued.
func (m *Model) asked(c chat.Conversation) (string, error) {
	o := chat.Options{AddGenerationPrompt: true}
	if n := len(c.Messages); n > 0 && c.Messages[n-1].Role() == "assistant" {
		o = chat.Options{ContinueFinalMessage: "content"}
	}
	return m.RenderChat(c, o)
}

// RenderChat writes a conversation with ChatTemplate: apply_chat_template. A template without
// special tokens gets those of the tokenizer's folder.
func (m *Model) RenderChat(c chat.Conversation, o chat.Options) (string, error) {
	t, err := m.template()
	if err != nil {
		return "", err
	}
	s, err := t.Render(c, o)
	if err != nil {
		return "", fmt.Errorf("auto: %w", err)
	}
	return s, nil
}

// template returns ChatTemplate. If it has no special tokens, it gets those of the folder.
func (m *Model) template() (*chat.Template, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	if m.ChatTemplate == nil {
		return nil, fmt.Errorf("auto: the model has no chat template, so that it was not made for conversations; want %s, "+
			"or chat_template in %s, in the tokenizer's folder, or set Model.ChatTemplate", chat.FileName, tokenizerConfigName)
	}
	t := *m.ChatTemplate
	if t.SpecialTokens == nil {
		t.SpecialTokens = m.specialTokens
	}
	return &t, nil
}

// loadChatTemplate reads the template of the tokenizer's folder, if there is one.
func (m *Model) loadChatTemplate(dir string) (err error) {
	t, err := chat.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		m.specialTokens, err = chat.LoadSpecialTokens(dir)
		return err
	}
	if err != nil {
		return err
	}
	m.ChatTemplate, m.loadedTemplate, m.specialTokens = t, t, t.SpecialTokens
	return nil
}

// writeChatTemplate writes the template: a copy of the folder's files if it is the one that was
// loaded, otherwise in transformers' format.
func (m *Model) writeChatTemplate(dir string) error {
	switch {
	case m.ChatTemplate != m.loadedTemplate:
		return m.ChatTemplate.Save(dir)
	case m.tokenizerDir != "":
		return chat.CopyFiles(m.tokenizerDir, dir)
	}
	return nil
}
