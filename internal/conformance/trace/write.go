package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
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
	case nil, bool, int, int64, json.Number, string:
		text, err := json.Marshal(v)
		b.Write(text)
		return err
	case Hex:
		return write(b, FormatHex(float64(v)))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) { // JSON has no such numbers
			return write(b, pyfloat.Repr(v))
		}
		b.WriteString(pyfloat.Repr(v))
		return nil
	case Object:
		return writeAll(b, "{}", len(v), func(i int) error {
			fmt.Fprintf(b, "%s: ", quote(v[i].Name))
			if err := write(b, v[i].Value); err != nil {
				return fmt.Errorf("%s: %w", v[i].Name, err)
			}
			return nil
		})
	case map[string]any:
		o := Object{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			o = o.With(name, v[name])
		}
		return write(b, o)
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		return writeAll(b, "[]", list.Len(), func(i int) error { return write(b, list.Index(i).Interface()) })
	}
	return fmt.Errorf("a trace cannot hold a %T", v)
}

// writeAll writes n elements within brackets.
func writeAll(b *bytes.Buffer, brackets string, n int, element func(i int) error) error {
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := element(i); err != nil {
			return err
		}
	}
	b.WriteByte(brackets[1])
	return nil
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return strconv.QuoteToASCII(s) // unreachable: any string can be marshalled
	}
	return string(text)
}
