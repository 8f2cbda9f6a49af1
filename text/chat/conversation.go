package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// Conversation is the input of a template.
type Conversation struct {
	Messages []Message
	// Prompt is how many messages at the beginning are not learned, even if the assistant says
	// them.
	Prompt int

	// Tools are the functions that the model may call, as JSON schemas. Documents are what it may
	// consult, each with a title and a text. Both are values that encoding/json can marshal;
	// json.RawMessage and [Object] keep the order of their fields, which a template writes. Nil:
	// there are none.
	Tools, Documents []any
	// Variables are other variables of the template, such as enable_thinking. They take precedence
	// over special tokens of the same name.
	Variables map[string]any
}

// UnmarshalJSON reads TRL's data: {"messages": [...]}, or {"prompt": [...], "completion": [...]},
// whose prompt is not learned, with optional tools, documents and chat_template_kwargs. Other
// fields are ignored.
func (c *Conversation) UnmarshalJSON(content []byte) error {
	var f struct {
		Messages   json.RawMessage `json:"messages"`
		Prompt     json.RawMessage `json:"prompt"`
		Completion json.RawMessage `json:"completion"`
		Tools      json.RawMessage `json:"tools"`
		Documents  json.RawMessage `json:"documents"`
		Variables  json.RawMessage `json:"chat_template_kwargs"`
	}
	if err := json.Unmarshal(content, &f); err != nil {
		return err
	}
	messages, err := messagesOf("messages", f.Messages)
	if err != nil {
		return err
	}
	*c = Conversation{Messages: messages}
	if messages == nil {
		prompt, err := messagesOf("prompt", f.Prompt)
		if err != nil {
			return err
		}
		completion, err := messagesOf("completion", f.Completion)
		if err != nil {
			return err
		}
		c.Prompt, c.Messages = len(prompt), append(prompt, completion...)
	} else if f.Prompt != nil || f.Completion != nil {
		return errors.New("there are both messages and prompt or completion; want one of the two forms")
	}
	if len(c.Messages) == 0 {
		return fmt.Errorf(`want {"messages": [...]}, or "prompt" and "completion", with at least one message; found %s`,
			fieldsOf(content))
	}
	if c.Tools, err = valuesOf("tools", f.Tools); err != nil {
		return err
	}
	if c.Documents, err = valuesOf("documents", f.Documents); err != nil {
		return err
	}
	c.Variables, err = variablesOf(f.Variables)
	return err
}

// variablesOf reads chat_template_kwargs.
func variablesOf(content json.RawMessage) (map[string]any, error) {
	if content == nil || string(content) == "null" {
		return nil, nil
	}
	var o Object
	if err := json.Unmarshal(content, &o); err != nil {
		return nil, fmt.Errorf("chat_template_kwargs: %w", err)
	}
	variables := map[string]any{}
	for i, name := range o.names {
		variables[name] = o.values[i]
	}
	return variables, nil
}

// fieldsOf names the fields of a JSON object.
func fieldsOf(content []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(content, &fields) != nil || len(fields) == 0 {
		return "no fields"
	}
	return fmt.Sprintf("the fields %q", slices.Sorted(maps.Keys(fields)))
}

// wantMessages is how messages are written.
const wantMessages = `[{"role": "user", "content": "..."}]`

// messagesOf reads a list of messages; nil content, or null, means none.
func messagesOf(field string, content json.RawMessage) (messages []Message, err error) {
	switch {
	case content == nil || string(content) == "null":
		return nil, nil
	case bytes.HasPrefix(content, []byte(`"`)):
		return nil, fmt.Errorf("%s is a text; want messages, %s; texts without roles need no chat template, and package "+
			"data/table reads them", field, wantMessages)
	case !bytes.HasPrefix(content, []byte("[")):
		return nil, fmt.Errorf("%s is %.40s; want messages, %s", field, content, wantMessages)
	}
	if err := json.Unmarshal(content, &messages); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return messages, nil
}

// valuesOf reads a list, or a string that contains one as JSON.
func valuesOf(field string, content json.RawMessage) ([]any, error) {
	if content == nil || string(content) == "null" {
		return nil, nil
	}
	v, err := decode(content)
	if s, ok := v.(string); ok && err == nil {
		v, err = decode([]byte(s))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: want a list, found %.40s", field, content)
	}
	return list, nil
}

// Read reads JSON Lines: a conversation from each line. Empty lines are skipped.
func Read(r io.Reader) ([]Conversation, error) { return readLines[Conversation](r) }

// ReadFile reads the conversations of a file, one from each line.
func ReadFile(path string) ([]Conversation, error) { return readFile[Conversation](path) }

func readLines[T any](r io.Reader) (list []T, err error) {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("chat: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var v T
			err := json.Unmarshal(line, &v)
			if line[0] != '{' || err != nil && !json.Valid(line) {
				err = fmt.Errorf("want a whole JSON object on each line (JSON Lines), found %.40s", line)
			}
			if err != nil {
				return nil, fmt.Errorf("chat: line %d: %w", n, err)
			}
			list = append(list, v)
		}
		if err != nil {
			return list, nil
		}
	}
}

func readFile[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	list, err := readLines[T](f)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, path)
	}
	return list, nil
}
