package crossencoder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
)

// Messages says how the chat template of a model writes a pair: as a message of the role query and
// one of the role document. A prompt is a message of the role system before them.
type Messages struct {
	Structured          bool           // contents are lists of parts ("structured") instead of texts ("flat")
	AddGenerationPrompt bool           // end with what comes before an answer
	Variables           map[string]any // other variables of the template, such as enable_thinking
}

// MessagesFor returns how sentence-transformers writes pairs with a chat template: contents are
// lists of parts if the template looks at the types of parts. A nil template gives nil, which joins
// the two texts of a pair.
func MessagesFor(t *chat.Template) *Messages {
	if t == nil {
		return nil
	}
	source := t.String()
	structured := source == "" || len(t.Names()) > 1
	for _, part := range []string{"content[0]", ".type", "'type'", `"type"`, "message.content["} {
		structured = structured || strings.Contains(source, part)
	}
	return &Messages{Structured: structured}
}

// of writes a conversation of the texts, each of the role beside it.
func (w *Messages) of(texts ...[2]string) (c chat.Conversation) {
	for _, t := range texts {
		role, s := t[0], t[1]
		message := chat.Say(role, s)
		if w.Structured {
			message = message.With("content", []any{chat.Object{}.With("type", "text").With("text", s)})
		}
		c.Messages = append(c.Messages, message)
	}
	c.Variables = maps.Clone(w.Variables)
	return c
}

// render writes a pair. An empty prompt is no message.
func (m *CrossEncoder) render(prompt, query, document string) (string, error) {
	texts := [][2]string{{"query", query}, {"document", document}}
	if prompt != "" {
		texts = slices.Insert(texts, 0, [2]string{"system", prompt})
	}
	return m.RenderChat(m.Messages.of(texts...), chat.Options{AddGenerationPrompt: m.Messages.AddGenerationPrompt})
}

// carriesPairs returns an error if the chat template does not write both texts of a pair, as that
// of a model that only chats. It compares what the template makes of different pairs.
func (m *CrossEncoder) carriesPairs() error {
	if m.Messages == nil {
		return nil
	}
	const advice = "want a template that writes the messages of the roles query and document (ChatTemplate, with " +
		"Messages of MessagesFor), or Messages nil, which joins the texts of a pair as they are"
	if m.ChatTemplate == nil {
		return errors.New("crossencoder: Messages is set, but the model has no chat template; " + advice)
	}
	var written [3]string
	for i, pair := range [][2]string{{"alpha", "bravo"}, {"charlie", "bravo"}, {"alpha", "foxtrot"}} {
		s, err := m.render("", pair[0], pair[1])
		if err != nil {
			return fmt.Errorf("crossencoder: the chat template cannot write a pair: %w; %s", err, advice)
		}
		written[i] = s
	}
	for i, role := range []string{"query", "document"} {
		if written[0] == written[i+1] {
			return fmt.Errorf("crossencoder: the chat template leaves out the %s of a pair; %s", role, advice)
		}
	}
	return nil
}

// writtenTokens tokenizes a pair that the chat template writes. In a pair that is cut, the last
// tokens are replaced by those that the template ends every pair with, where a language model
// answers.
func (m *CrossEncoder) writtenTokens(prompt, query, document string) (t inputs.Text, err error) {
	s, err := m.render(prompt, query, document)
	if err != nil {
		return t, fmt.Errorf("crossencoder: %w", err)
	}
	t, most, err := m.EncodeRendered(s, m.MaxLength)
	if err != nil || len(t.InputIDs) < most {
		return t, err
	}
	begin, end, err := m.frame(prompt)
	if err != nil {
		return t, err
	}
	if begin+len(end) >= most {
		return t, fmt.Errorf("crossencoder: MaxLength leaves %d tokens, but what the chat template and the prompt write "+
			"around a pair has %d already; want more, or a shorter prompt", most, begin+len(end))
	}
	copy(t.InputIDs[len(t.InputIDs)-len(end):], end)
	return t, nil
}

// frame returns how many tokens the template writes before the texts of a pair, and the tokens that
// it writes after them: those that two different pairs share.
func (m *CrossEncoder) frame(prompt string) (begin int, end []int64, err error) {
	whole, err := m.Tokenizer.WithTruncation(nil)
	if err != nil {
		return 0, nil, fmt.Errorf("crossencoder: %w", err)
	}
	var ids [2][]int64
	for i, filler := range []string{"0", "1 2 3 4"} {
		s, err := m.render(prompt, filler, filler)
		if err != nil {
			return 0, nil, fmt.Errorf("crossencoder: %w", err)
		}
		e, err := whole.Encode(s, &text.EncodeOptions{NoSpecialTokens: true})
		if err != nil {
			return 0, nil, fmt.Errorf("crossencoder: %w", err)
		}
		ids[i] = e.IDs
	}
	least, after := min(len(ids[0]), len(ids[1])), 0
	for after < least && ids[0][len(ids[0])-1-after] == ids[1][len(ids[1])-1-after] {
		after++
	}
	if after == least { // nothing tells them apart
		return 0, nil, nil
	}
	for begin < least-after && ids[0][begin] == ids[1][begin] {
		begin++
	}
	return begin, ids[0][len(ids[0])-after:], nil
}
