package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gotrainer/gotrainer/text/chat/internal/jinja"
)

// Template is the chat template of a model, or several under names. Several goroutines may use it
// at a time.
type Template struct {
	// SpecialTokens are variables of the template: bos_token, eos_token and others.
	SpecialTokens map[string]string
	// Now is the clock of templates that write the date (strftime_now); nil: time.Now.
	Now func() time.Time

	sources []source
}

// source is a named template.
type source struct {
	name, text string
	parsed     *jinja.Template
	err        error // why the template cannot be used
}

// defaultName is the name of a template that has no other.
const defaultName = "default"

func newSource(name, text string) source {
	parsed, err := jinja.Parse(text)
	return source{name, text, parsed, err}
}

// Parse reads a template. The caller sets SpecialTokens.
func Parse(text string) (*Template, error) {
	s := newSource(defaultName, text)
	if s.err != nil {
		return nil, fmt.Errorf("chat: the template: %w", s.err)
	}
	return &Template{sources: []source{s}}, nil
}

// Names are the names of the templates; one without a name is called "default".
func (t *Template) Names() (names []string) {
	for _, s := range t.sources {
		names = append(names, s.name)
	}
	return names
}

// Named returns only the template of that name. A Template with several takes "tool_use" for
// conversations with tools, if there is one, and otherwise "default", as transformers does.
func (t *Template) Named(name string) (*Template, error) {
	for _, s := range t.sources {
		if s.name == name {
			s.name = defaultName
			return &Template{t.SpecialTokens, t.Now, []source{s}}, nil
		}
	}
	return nil, fmt.Errorf("chat: there is no template %q; the names are %q", name, t.Names())
}

// String is the source of the template for conversations without tools, or "" if there is no
// default template.
func (t *Template) String() string {
	s, err := t.choose(nil)
	if err != nil {
		return ""
	}
	return s.text
}

// choose is get_chat_template of transformers.
func (t *Template) choose(tools []any) (source, error) {
	names := []string{defaultName}
	if tools != nil {
		names = []string{"tool_use", defaultName}
	}
	for _, name := range names {
		if i := slices.IndexFunc(t.sources, func(s source) bool { return s.name == name }); i >= 0 {
			return t.sources[i], nil
		}
	}
	return source{}, fmt.Errorf("none of the templates is the default one: take one of %q by Named", t.Names())
}

// Options says how a conversation ends.
type Options struct {
	AddGenerationPrompt bool // end with what comes before an answer
	// ContinueFinalMessage names a field of the last message, usually "content", that is left open
	// for the model to continue: continue_final_message. Zero: none.
	ContinueFinalMessage string
}

// Render renders a conversation as text: apply_chat_template. The text has all special tokens that
// it needs, so the tokenizer must add none (text.EncodeOptions.NoSpecialTokens).
func (t *Template) Render(c Conversation, o Options) (string, error) {
	s, err := t.choose(c.Tools)
	if err != nil {
		return "", fmt.Errorf("chat: %w", err)
	}
	res, err := t.render(s, c, o)
	return res.Text, err
}

func (t *Template) render(s source, c Conversation, o Options) (res jinja.Result, err error) {
	if res, err = t.run(s, c, o); err != nil {
		err = fmt.Errorf("chat: the template %q: %w", s.name, err)
	}
	return res, err
}

// run is render_jinja_template of transformers.
func (t *Template) run(s source, c Conversation, o Options) (res jinja.Result, err error) {
	switch {
	case s.err != nil:
		return res, s.err
	case len(c.Messages) == 0:
		return res, errors.New("the conversation has no messages; want at least one")
	case o.AddGenerationPrompt && o.ContinueFinalMessage != "":
		return res, errors.New("Options has AddGenerationPrompt and ContinueFinalMessage; want one at most, since an " +
			"answer begins or is continued")
	}
	final := ""
	if field := o.ContinueFinalMessage; field != "" {
		last := len(c.Messages) - 1
		c.Messages = slices.Clone(c.Messages)
		if c.Messages[last], final, err = open(c.Messages[last], field, s.text); err != nil {
			return res, err
		}
	}
	variables, err := t.variables(c, o)
	if err != nil {
		return res, err
	}
	if res, err = s.parsed.Render(variables, t.Now); err != nil {
		return res, err
	}
	if o.ContinueFinalMessage != "" {
		res.Text, err = cutAtTag(res.Text, final)
	}
	return res, err
}

// variables returns the variables of a template.
func (t *Template) variables(c Conversation, o Options) (*jinja.Dict, error) {
	variables := jinja.NewDict()
	for name, token := range t.SpecialTokens {
		variables.Set(name, token)
	}
	own := []string{"messages", "tools", "documents", "add_generation_prompt"}
	for name, v := range c.Variables {
		if slices.Contains(own, name) {
			return nil, fmt.Errorf("Conversation.Variables has %q, which has a field of its own", name)
		}
		value, err := valueOf(v, 0)
		if err != nil {
			return nil, fmt.Errorf("the variable %q: %w", name, err)
		}
		variables.Set(name, value)
	}
	messages := make([]any, len(c.Messages))
	for i, m := range c.Messages {
		messages[i] = m
	}
	for i, list := range [][]any{messages, c.Tools, c.Documents} {
		if list == nil {
			variables.Set(own[i], nil)
			continue
		}
		value, err := valueOf(list, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", own[i], err)
		}
		variables.Set(own[i], value)
	}
	variables.Set("add_generation_prompt", o.AddGenerationPrompt)
	return variables, nil
}

// openTag is added where the last message is to be continued. After rendering, it is cut off with
// everything after it.
const openTag = "CONTINUE_FINAL_MESSAGE_TAG "

// open appends the tag to a field of a message, and returns the original text of the field.
func open(m Message, field, template string) (Message, string, error) {
	v, _ := m.Get(field)
	if v == nil {
		return m, "", fmt.Errorf("the last message has no %q to continue (Options.ContinueFinalMessage)", field)
	}
	if !strings.Contains(template, field) {
		return m, "", fmt.Errorf("the template does not look at %q of a message (Options.ContinueFinalMessage)", field)
	}
	if s, ok := v.(string); ok {
		return m.With(field, s+openTag), s, nil
	}
	// Parts may be of any type that encoding/json can marshal.
	value, err := plainOf(v)
	if err != nil {
		return m, "", err
	}
	parts, _ := value.([]any)
	for i, part := range slices.Backward(parts) {
		if o, ok := part.(Object); ok {
			if s, ok := o.Get("text"); ok {
				s, _ := s.(string)
				parts[i] = o.With("text", s+openTag)
				return m.With(field, parts), s, nil
			}
		}
	}
	return m, "", fmt.Errorf("%q of the last message has no text to continue (Options.ContinueFinalMessage)", field)
}

// cutAtTag cuts the text where the last message ends.
func cutAtTag(text, final string) (string, error) {
	tag := strings.TrimSpace(openTag)
	at := strings.LastIndex(text, tag)
	if at < 0 || !strings.Contains(text, strings.TrimFunc(final, isSpace)) {
		return "", errors.New("the template does not write the last message as it is, so it cannot be continued " +
			"(Options.ContinueFinalMessage)")
	}
	if strings.HasPrefix(text[at:], openTag) {
		return text[:at], nil
	}
	return strings.TrimRightFunc(text[:at], isSpace), nil
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
