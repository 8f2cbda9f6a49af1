package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/text/chat/internal/jinja"
)

// Object is a JSON object whose fields keep their order. Values are what encoding/json can marshal;
// after unmarshaling they are nil, bool, string, json.Number, []any and Object.
type Object struct {
	names  []string
	values []any
}

// Names are the names of the fields.
func (o Object) Names() []string { return slices.Clone(o.names) }

// Get returns the value of a field.
func (o Object) Get(name string) (value any, ok bool) {
	if i := slices.Index(o.names, name); i >= 0 {
		return o.values[i], true
	}
	return nil, false
}

// With returns an object with this field added, or with its value replaced.
func (o Object) With(name string, value any) Object {
	o.names, o.values = slices.Clone(o.names), slices.Clone(o.values)
	o.set(name, value)
	return o
}

func (o *Object) set(name string, value any) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.values[i] = value
		return
	}
	o.names, o.values = append(o.names, name), append(o.values, value)
}

// MarshalJSON writes the fields in their order.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(o.values[i]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object.
func (o *Object) UnmarshalJSON(content []byte) error {
	v, err := decode(content)
	if err != nil {
		return err
	}
	read, ok := v.(Object)
	if !ok {
		return fmt.Errorf("want an object of JSON, found %.40s", content)
	}
	*o = read
	return nil
}

// Message is a turn of a conversation: role, content, and any other field that the template knows.
type Message struct{ Object }

// Say makes a message with a role.
func Say(role, content string) Message {
	return Message{Object{[]string{"role", "content"}, []any{role, content}}}
}

// System makes a system message, which tells the assistant how to behave.
func System(content string) Message { return Say("system", content) }

// User makes a message of the user.
func User(content string) Message { return Say("user", content) }

// Assistant makes a message of the assistant, which is the model.
func Assistant(content string) Message { return Say(assistant, content) }

const assistant = "assistant"

// With returns a message with this field added, or with its value replaced. A content may consist
// of parts, such as []any{map[string]any{"type": "text", "text": "Hello"}}; nil means none.
func (m Message) With(name string, value any) Message { return Message{m.Object.With(name, value)} }

// Role is who speaks.
func (m Message) Role() string { return m.stringOf("role") }

// Content is what is said, if it is a string.
func (m Message) Content() string { return m.stringOf("content") }

func (m Message) stringOf(name string) string {
	v, _ := m.Get(name)
	s, _ := v.(string)
	return s
}

// maxDepth limits how deep values may be nested.
const maxDepth = 200

// decode decodes one JSON value; objects become [Object], so that fields keep their order.
func decode(content []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value of JSON")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the values nest more than %d deep", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		var o Object
		at := map[string]int{} // index by name: objects may have many fields
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			key, _ := name.(string)
			if i, ok := at[key]; ok {
				o.values[i] = v
				continue
			}
			at[key] = len(o.names)
			o.names, o.values = append(o.names, key), append(o.values, v)
		}
		_, err := d.Token()
		return o, err
	case json.Delim('['):
		items := []any{}
		for d.More() {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			items = append(items, v)
		}
		_, err := d.Token()
		return items, err
	}
	return t, nil
}

// valueOf converts a value for a template.
func valueOf(v any, depth int) (jinja.Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the values nest more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64:
		return v, nil
	case string:
		return strings.ToValidUTF8(v, "\uFFFD"), nil
	case int:
		return int64(v), nil
	case json.Number:
		return numberOf(v)
	case []any:
		return listOf(v, depth)
	case Message:
		return dictOf(v.names, v.values, depth)
	case Object:
		return dictOf(v.names, v.values, depth)
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		values := make([]any, len(names))
		for i, name := range names {
			values[i] = v[name]
		}
		return dictOf(names, values, depth)
	}
	content, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoded, err := decode(content)
	if err != nil {
		return nil, err
	}
	return valueOf(decoded, depth+1)
}

// numberOf converts a number to an integer or a float, as Python's json does.
func numberOf(n json.Number) (jinja.Value, error) {
	s := n.String()
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // too large a number is infinite, as in Python
		return f, nil
	}
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s does not fit into 64 bits", s)
	}
	return i, nil
}

func listOf(items []any, depth int) (jinja.Value, error) {
	values := make([]jinja.Value, len(items))
	for i, item := range items {
		v, err := valueOf(item, depth+1)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return jinja.NewList(values...), nil
}

func dictOf(names []string, values []any, depth int) (jinja.Value, error) {
	d := jinja.NewDict()
	for i, name := range names {
		v, err := valueOf(values[i], depth+1)
		if err != nil {
			return nil, err
		}
		d.Set(strings.ToValidUTF8(name, "\uFFFD"), v)
	}
	return d, nil
}

// plainOf returns a value as it would be decoded from its JSON.
func plainOf(v any) (any, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decode(content)
}
