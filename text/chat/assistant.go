package chat

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat/internal/jinja"
)

// RenderAssistant renders a conversation as text and returns the spans that the assistant says, in
// characters, as text.Encoding.Offsets counts them: see "What is learned" above. It leaves out the
// spans of the first Prompt messages. A conversation in which the assistant says nothing is an
// error.
func (t *Template) RenderAssistant(c Conversation) (string, []text.Span, error) {
	s, err := t.choose(c.Tools)
	if err != nil {
		return "", nil, fmt.Errorf("chat: %w", err)
	}
	if c.Prompt < 0 || c.Prompt > len(c.Messages) {
		return "", nil, fmt.Errorf("chat: Conversation.Prompt is %d; want 0 to %d, the number of messages", c.Prompt,
			len(c.Messages))
	}
	res, err := t.render(s, c, Options{})
	if err != nil {
		return "", nil, err
	}
	var spans []text.Span
	if s.parsed.Generation {
		spans, err = t.markedSpans(s, c, res)
	} else {
		spans, err = t.answerSpans(s, c, res.Text)
	}
	if err == nil && len(spans) == 0 {
		err = fmt.Errorf("chat: the assistant says nothing in the %d messages after the first %d; want a message of the "+
			"role %q", len(c.Messages)-c.Prompt, c.Prompt, assistant)
	}
	return res.Text, spans, err
}

// markedSpans returns the spans that the template marks with {% generation %}, after the prompt.
func (t *Template) markedSpans(s source, c Conversation, res jinja.Result) (spans []text.Span, err error) {
	from := 0
	if c.Prompt > 0 {
		answers := c.Prompt < len(c.Messages) && c.Messages[c.Prompt].Role() == assistant
		begin, err := t.renderFirst(s, c, c.Prompt, answers, res.Text)
		if err != nil {
			return nil, err
		}
		from = utf8.RuneCountInString(begin)
	}
	for _, g := range res.Generated {
		if start := max(g.Start, from); start < g.End {
			spans = append(spans, text.Span{Start: start, End: g.End})
		}
	}
	return spans, nil
}

// answerSpans returns the spans that the assistant's messages add to the text, each after the
// generation prompt.
func (t *Template) answerSpans(s source, c Conversation, whole string) (spans []text.Span, err error) {
	for i := c.Prompt; i < len(c.Messages); i++ {
		if c.Messages[i].Role() != assistant {
			continue
		}
		before, err := t.renderFirst(s, c, i, true, whole)
		if err != nil {
			return nil, err
		}
		after := whole
		if i+1 < len(c.Messages) {
			if after, err = t.renderFirst(s, c, i+1, false, whole); err != nil {
				return nil, err
			}
		}
		if len(after) > len(before) {
			spans = append(spans, text.Span{Start: utf8.RuneCountInString(before), End: utf8.RuneCountInString(after)})
		}
	}
	return spans, nil
}

// renderFirst renders the first n messages. It is an error if the text of the whole conversation
// does not begin with the result.
func (t *Template) renderFirst(s source, c Conversation, n int, prompt bool, whole string) (string, error) {
	if n == 0 {
		return "", fmt.Errorf("chat: the conversation begins with what the assistant says, and the template %q cannot "+
			"write what stands before it. Set a template that marks the answers with {%% generation %%}, or begin with a "+
			"message of another role", s.name)
	}
	c.Messages = c.Messages[:n]
	res, err := t.render(s, c, Options{AddGenerationPrompt: prompt})
	if err != nil {
		return "", fmt.Errorf("%w (of the first %d messages, to find what the assistant says)", err, n)
	}
	if !strings.HasPrefix(whole, res.Text) {
		at := 0
		for at < len(res.Text) && at < len(whole) && res.Text[at] == whole[at] {
			at++
		}
		return "", fmt.Errorf("chat: what the assistant says cannot be told from the rest: the conversation does not begin "+
			"with its first %d messages as the template %q writes them alone (generation prompt: %t). They differ at byte "+
			"%d, %q and %q. Set a template that marks the answers with {%% generation %%}, or end the conversation there",
			n, s.name, prompt, at, excerpt(whole, at), excerpt(res.Text, at))
	}
	return res.Text, nil
}

// excerpt returns a few characters of s from byte at on, for an error.
func excerpt(s string, at int) string {
	return strings.ToValidUTF8(s[at:min(at+20, len(s))], "")
}
