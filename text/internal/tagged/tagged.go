// Package tagged reads and writes the components of tokenizer.json: JSON objects whose field "type"
// says what they are.
package tagged

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// maxDepth limits the nesting of components: real files need two levels, and each level parses its
// text again.
const maxDepth = 16

// Parse reads a component with a function that knows its kinds; it returns nil for null. name, such
// as "decoder", is for errors, and depth is how deep the component is nested in others.
func Parse[T any](raw json.RawMessage, name string, depth int, parseKind func(kind string, raw json.RawMessage,
	depth int) (T, error)) (piece T, err error) {
	var none T
	if Null(raw) {
		return none, nil
	}
	if depth > maxDepth {
		return none, fmt.Errorf("%ss are nested more than %d deep in one another", name, maxDepth)
	}
	kind, err := Type(raw)
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	if piece, err = parseKind(kind, raw, depth); err != nil {
		return none, fmt.Errorf("%s %s: %w", name, kind, err)
	}
	return piece, nil
}

// List reads the components in a field of a Sequence at that depth, none of which may be null.
func List[T any](raw json.RawMessage, field string, depth int, parse func(raw json.RawMessage, depth int) (T,
	error)) ([]T, error) {
	fields, err := Decode[map[string]json.RawMessage](raw, field)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(fields[field], &list); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	pieces := make([]T, len(list))
	for i, raw := range list {
		if Null(raw) {
			return nil, fmt.Errorf("%s[%d] is null", field, i)
		}
		if pieces[i], err = parse(raw, depth+1); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

// Type returns the field "type" of an object.
func Type(raw json.RawMessage) (string, error) {
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return "", err
	}
	if head.Type == nil {
		return "", fmt.Errorf("an object without a field %q: %.60s", "type", raw)
	}
	return *head.Type, nil
}

// Null reports whether raw is absent or null.
func Null(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// Marshal writes an object with the field "type", followed by the fields of v, a struct without a
// MarshalJSON method.
func Marshal(kind string, v any) ([]byte, error) {
	fields, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(kind)
	if err != nil {
		return nil, err
	}
	out := slices.Concat([]byte(`{"type":`), head)
	if !bytes.Equal(fields, []byte("{}")) {
		out = append(append(out, ','), fields[1:len(fields)-1]...)
	}
	return append(out, '}'), nil
}

// Decode reads an object into a new T. It is an error if a required field is missing.
func Decode[T any](raw json.RawMessage, required ...string) (T, error) {
	var v T
	if len(required) > 0 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return v, err
		}
		for _, name := range required {
			if _, ok := fields[name]; !ok {
				return v, fmt.Errorf("missing field %q in %.60s", name, raw)
			}
		}
	}
	return v, json.Unmarshal(raw, &v)
}
