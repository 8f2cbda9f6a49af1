package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
)

// Preference is a prompt with a chosen answer and a rejected one. All three are texts, or all are
// messages.
type Preference struct {
	Prompt, Chosen, Rejected Content

	Tools     []any          // for messages, as in a [Conversation]
	Variables map[string]any // for the template, as in a [Conversation]

	Margin float64 // how much better the chosen answer is, which a reward model can learn; zero: any amount
}

// Content is a text, or messages of a conversation.
type Content struct {
	Text     string
	Messages []Message // nil: it is a text
}

// IsChat reports whether the preference consists of messages.
func (p Preference) IsChat() bool { return p.Chosen.Messages != nil }

// Conversation is the prompt followed by an answer.
func (p Preference) Conversation(answer Content) Conversation {
	n := len(p.Prompt.Messages)
	return Conversation{Messages: append(p.Prompt.Messages[:n:n], answer.Messages...), Prompt: n, Tools: p.Tools,
		Variables: p.Variables}
}

// UnmarshalJSON reads TRL's preference data: {"prompt": ..., "chosen": ..., "rejected": ...}, each
// a text or a list of messages, with optional tools, chat_template_kwargs and, as a number, margin.
// Without a prompt, the prompt is what both answers begin with, like TRL's extract_prompt: messages,
// or characters without a trailing space. Each answer keeps at least one message or character.
// Other fields are ignored.
func (p *Preference) UnmarshalJSON(content []byte) error {
	var f struct {
		Prompt    json.RawMessage `json:"prompt"`
		Chosen    json.RawMessage `json:"chosen"`
		Rejected  json.RawMessage `json:"rejected"`
		Tools     json.RawMessage `json:"tools"`
		Variables json.RawMessage `json:"chat_template_kwargs"`
		Margin    float64         `json:"margin"`
	}
	if err := json.Unmarshal(content, &f); err != nil {
		return err
	}
	*p = Preference{Margin: f.Margin}
	for _, field := range []struct {
		name    string
		content json.RawMessage
		into    *Content
	}{{"prompt", f.Prompt, &p.Prompt}, {"chosen", f.Chosen, &p.Chosen}, {"rejected", f.Rejected, &p.Rejected}} {
		if field.name == "prompt" && field.content == nil {
			continue
		}
		if err := field.into.read(field.name, field.content); err != nil {
			return err
		}
	}
	switch chat := p.IsChat(); {
	case f.Prompt != nil && chat != (p.Prompt.Messages != nil) || chat != (p.Rejected.Messages != nil):
		prompt := ""
		if f.Prompt != nil {
			prompt = "prompt is " + p.Prompt.kind() + ", "
		}
		return fmt.Errorf("%schosen is %s, and rejected is %s; want texts everywhere, or lists of messages, %s", prompt,
			p.Chosen.kind(), p.Rejected.kind(), wantMessages)
	case f.Prompt == nil:
		p.extractPrompt()
	}
	var err error
	if p.Tools, err = valuesOf("tools", f.Tools); err != nil {
		return err
	}
	p.Variables, err = variablesOf(f.Variables)
	return err
}

func (c Content) kind() string {
	if c.Messages != nil {
		return "a list of messages"
	}
	return "a text"
}

func (c *Content) read(name string, content json.RawMessage) error {
	switch {
	case bytes.HasPrefix(content, []byte(`"`)):
		return json.Unmarshal(content, &c.Text)
	case bytes.HasPrefix(content, []byte("[")):
		messages, err := messagesOf(name, content)
		if err == nil && len(messages) == 0 && name != "prompt" {
			err = fmt.Errorf("%s has no messages; want at least one", name)
		}
		if c.Messages = messages; messages == nil {
			c.Messages = []Message{}
		}
		return err
	}
	if content == nil {
		return fmt.Errorf("there is no %s; want a text, or messages, %s", name, wantMessages)
	}
	return fmt.Errorf("%s is %.40s; want a text, or messages, %s", name, content, wantMessages)
}

// extractPrompt moves the common beginning of both answers to the prompt.
func (p *Preference) extractPrompt() {
	if p.IsChat() {
		n := common(p.Chosen.Messages, p.Rejected.Messages, func(a, b Message) bool { return a.equal(b) })
		p.Prompt.Messages = p.Chosen.Messages[:n:n]
		p.Chosen.Messages, p.Rejected.Messages = p.Chosen.Messages[n:], p.Rejected.Messages[n:]
		return
	}
	chosen, rejected := []rune(p.Chosen.Text), []rune(p.Rejected.Text)
	n := common(chosen, rejected, func(a, b rune) bool { return a == b })
	if n > 0 && n < min(len(chosen), len(rejected)) && chosen[n] != rejected[n] && chosen[n-1] == ' ' {
		n--
	}
	p.Prompt.Text, p.Chosen.Text, p.Rejected.Text = string(chosen[:n]), string(chosen[n:]), string(rejected[n:])
}

// common returns the length of the common prefix of two lists, leaving at least one element in
// each.
func common[T any](a, b []T, equal func(a, b T) bool) (n int) {
	for n < min(len(a), len(b))-1 && equal(a[n], b[n]) {
		n++
	}
	return n
}

// equal compares messages regardless of the order of their fields.
func (m Message) equal(other Message) bool {
	values := [2]any{}
	for i, m := range []Message{m, other} {
		content, err := json.Marshal(m)
		if err != nil || json.Unmarshal(content, &values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// ReadPreferences reads JSON Lines: a preference from each line. Empty lines are skipped.
func ReadPreferences(r io.Reader) ([]Preference, error) { return readLines[Preference](r) }

// ReadPreferencesFile reads the preferences of a file, one from each line.
func ReadPreferencesFile(path string) ([]Preference, error) { return readFile[Preference](path) }
