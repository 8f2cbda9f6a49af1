package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Pair is a field of an [Object].
type Pair struct {
	Name  string
	Value any
}

// Object is a JSON object whose fields keep their order. Its values, and those of lists, are nil,
// bool, int, int64, string, float64, [Hex], Object, maps by string and slices of these.
type Object []Pair

// Of makes an object of names and their values: trace.Of("update", 3, "skipped", false).
func Of(fields ...any) Object { return Object{}.With(fields...) }

// With returns the object with further fields behind its own, as names and values.
func (o Object) With(fields ...any) Object {
	for i := 0; i < len(fields); i += 2 {
		o = append(o, Pair{fields[i].(string), fields[i+1]}) //nolint:forcetypeassert // a mistake in the caller
	}
	return o
}

// Get returns a field; nil if there is none.
func (o Object) Get(name string) any {
	for _, p := range o {
		if p.Name == name {
			return p.Value
		}
	}
	return nil
}

// Marshal writes a trace: each field on a line of its own, and each entry of a list of lists or
// objects.
func Marshal(o Object) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{\n")
	for i, p := range o {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, " %s: ", quote(p.Name))
		list, ok := p.Value.([]any)
		if !ok || len(list) == 0 || !composite(list[0]) {
			if err := write(&b, p.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			continue
		}
		b.WriteString("[\n  ")
		for j, v := range list {
			if j > 0 {
				b.WriteString(",\n  ")
			}
			if err := write(&b, v); err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", p.Name, j, err)
			}
		}
		b.WriteString("\n ]")
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

func composite(v any) bool {
	switch v.(type) {
	case Object, []any, []int, []string, map[string]any:
		return true
	}
	return false
}

func write(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case json.Number:
		b.WriteString(v.String())
	case string:
		b.WriteString(quote(v))
	case Hex:
		b.WriteString(quote(FormatHex(float64(v))))
	case float64:
		text := pyfloat.Repr(v)
		if math.IsNaN(v) || math.IsInf(v, 0) { // JSON has no such numbers
			text = quote(text)
		}
		b.WriteString(text)
	case []int:
		return writeList(b, v)
	case []string:
		return writeList(b, v)
	case []Hex:
		return writeList(b, v)
	case []any:
		return writeList(b, v)
	case Object:
		return writeFields(b, v)
	case map[string]any:
		o := make(Object, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			o = append(o, Pair{name, v[name]})
		}
		return writeFields(b, o)
	default:
		return fmt.Errorf("a trace cannot hold a %T", v)
	}
	return nil
}

func writeList[T any](b *bytes.Buffer, list []T) error {
	b.WriteByte('[')
	for i, v := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := write(b, v); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeFields(b *bytes.Buffer, o Object) error {
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(p.Name))
		b.WriteString(": ")
		if err := write(b, p.Value); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	b.WriteByte('}')
	return nil
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return strconv.QuoteToASCII(s) // unreachable: any string can be marshalled
	}
	return string(text)
}
