package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Object is a JSON object. Its values, and those of lists, are nil, bool, int, int64, string,
// float64, [Hex], Object, maps with string keys, and slices of these.
type Object map[string]any

// Of makes an object from alternating names and values: trace.Of("update", 3, "skipped", false).
func Of(fields ...any) Object { return Object{}.With(fields...) }

// With sets further fields from alternating names and values, and returns the object.
func (o Object) With(fields ...any) Object {
	for i := 0; i < len(fields); i += 2 {
		o[fields[i].(string)] = fields[i+1] //nolint:forcetypeassert // a mistake in the caller
	}
	return o
}

// Marshal formats a trace, with one line for each field and for each entry of a list of lists or
// objects.
func Marshal(fields Object) ([]byte, error) {
	var b bytes.Buffer
	names := slices.Sorted(maps.Keys(fields))
	err := writeAll(&b, "{\n ", ",\n ", "\n}\n", len(names), func(i int) error {
		list, ok := fields[names[i]].([]any)
		if !ok || len(list) == 0 || !composite(list[0]) {
			return writeField(&b, names[i], fields[names[i]])
		}
		fmt.Fprintf(&b, "%s: ", quote(names[i]))
		return writeAll(&b, "[\n  ", ",\n  ", "\n ]", len(list), func(j int) error {
			if err := write(&b, list[j]); err != nil {
				return fmt.Errorf("%s[%d]: %w", names[i], j, err)
			}
			return nil
		})
	})
	return b.Bytes(), err
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
		if math.IsNaN(v) || math.IsInf(v, 0) { // JSON cannot represent these
			return write(b, pyfloat.Repr(v))
		}
		b.WriteString(pyfloat.Repr(v))
		return nil
	case Object:
		names := slices.Sorted(maps.Keys(v))
		return writeAll(b, "{", ", ", "}", len(names), func(i int) error { return writeField(b, names[i], v[names[i]]) })
	case map[string]any:
		return write(b, Object(v))
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		return writeAll(b, "[", ", ", "]", list.Len(), func(i int) error { return write(b, list.Index(i).Interface()) })
	}
	return fmt.Errorf("a trace cannot hold a %T", v)
}

// writeAll writes n elements, with text before, between and behind them.
func writeAll(b *bytes.Buffer, before, between, behind string, n int, element func(i int) error) error {
	b.WriteString(before)
	for i := range n {
		if i > 0 {
			b.WriteString(between)
		}
		if err := element(i); err != nil {
			return err
		}
	}
	b.WriteString(behind)
	return nil
}

func writeField(b *bytes.Buffer, name string, v any) error {
	fmt.Fprintf(b, "%s: ", quote(name))
	if err := write(b, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func quote(s string) string {
	text, _ := json.Marshal(s) // strings can always be marshalled
	return string(text)
}
