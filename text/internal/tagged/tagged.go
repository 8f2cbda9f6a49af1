// Package tagged reads and writes the pieces of tokenizer.json: JSON objects whose field "type" says what they are.
package tagged

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// MaxDepth is how deep pieces may lie within one another: real files need two levels, and each level reads its text again.
const MaxDepth = 16

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

// Null says whether raw is absent or null.
func Null(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// Marshal writes the fields of v, a struct without a MarshalJSON of its own, after the field "type".
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

// Decode reads an object into a new T and refuses it when a required field is missing.
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
