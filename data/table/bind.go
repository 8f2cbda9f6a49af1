package table

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/data/internal/columns"
)

// decoder decodes a row. There is one for each file, used by several goroutines at a time.
type decoder[T any] func(row string) (T, error)

// newDecoder returns the decoder of rows with columns of these names; nil names for JSONL.
func newDecoder[T any](f Format, names []string) (decoder[T], error) {
	t := reflect.TypeFor[T]()
	switch {
	case t.Kind() == reflect.Struct && f.Syntax == JSONL:
		return objectDecoder[T](t)
	case t.Kind() == reflect.Struct:
		return structDecoder[T](t, f, names)
	}
	if t.Kind() == reflect.Map {
		if err := unique(names); err != nil {
			return nil, fmt.Errorf("%w, so that %v cannot hold both; []string does", err, t)
		}
	}
	loose := looseObject(t)
	if f.Syntax != JSONL {
		loose = looseFields(t, f, names)
	}
	if d, ok := loose.(decoder[T]); ok {
		return d, nil
	}
	return nil, fmt.Errorf("rows of %v cannot be %v; use a struct, map[string]string or []string for text, "+
		"map[string]json.RawMessage or json.RawMessage for JSONL, string for Lines", f.Syntax, t)
}

// looseFields returns the decoder of text into a type without named fields, nil if there is none.
func looseFields(t reflect.Type, f Format, names []string) any {
	split := func(row string) ([]string, error) {
		list, err := fields(row, f, make([]string, 0, len(names)))
		if err == nil && len(list) != len(names) {
			err = wrongCount(list, names)
		}
		return list, err
	}
	switch t {
	case reflect.TypeFor[[]string]():
		return decoder[[]string](split)
	case reflect.TypeFor[map[string]string]():
		return decoder[map[string]string](func(row string) (map[string]string, error) {
			list, err := split(row)
			if err != nil {
				return nil, err
			}
			m := make(map[string]string, len(names))
			for k, name := range names {
				m[name] = list[k]
			}
			return m, nil
		})
	case reflect.TypeFor[string]():
		if f.Syntax == Lines {
			return decoder[string](func(row string) (string, error) { return row, nil })
		}
	}
	return nil
}

// looseObject returns the decoder of JSON into a type without named fields, nil if there is none.
func looseObject(t reflect.Type) any {
	switch t {
	case columns.RawJSON:
		return decoder[json.RawMessage](func(row string) (json.RawMessage, error) {
			return json.RawMessage(row), walkObject(row, func(string, string) error { return nil })
		})
	case reflect.TypeFor[map[string]json.RawMessage]():
		return decoder[map[string]json.RawMessage](func(row string) (map[string]json.RawMessage, error) {
			m := make(map[string]json.RawMessage)
			return m, walkObject(row, func(key, value string) error {
				if _, twice := m[key]; twice {
					return errTwice
				}
				m[key] = json.RawMessage(value)
				return nil
			})
		})
	}
	return nil
}

var errTwice = errors.New("it appears twice in the row")

// ErrColumns is wrapped by the error about a row that has more or fewer columns than the table.
var ErrColumns = errors.New("its number of columns is not that of the table")

type countError struct{ found, names []string }

func wrongCount(found, names []string) error {
	return &countError{append([]string(nil), found...), names} // found may be on the stack of the caller
}

func (e *countError) Error() string {
	return fmt.Sprintf("%d columns, expected %d %q: %.100q", len(e.found), len(e.names), e.names, e.found)
}

func (e *countError) Is(target error) bool { return target == ErrColumns }

// setter parses the text of a value into a field.
type setter func(field reflect.Value, text string) error

// structDecoder returns the decoder of rows of text into a struct.
func structDecoder[T any](t reflect.Type, f Format, names []string) (decoder[T], error) {
	list, err := columns.Of(t)
	if err != nil {
		return nil, err
	}
	at, err := columns.Match(list, names)
	if err != nil {
		return nil, otherSeparator(err, f, names)
	}
	set := make([]setter, len(list))
	for k, c := range list {
		if set[k] = textSetter(c.Type); set[k] == nil {
			return nil, fmt.Errorf("column %q cannot be a field of type %v; text becomes strings, bools, numbers, "+
				"pointers to them (nil if empty), and encoding.TextUnmarshaler", c.Name, c.Type)
		}
	}
	return func(row string) (value T, err error) {
		var few [16]string
		text, err := fields(row, f, few[:0])
		if err != nil {
			return value, err
		}
		if len(text) != len(names) {
			return value, wrongCount(text, names)
		}
		v := reflect.ValueOf(&value).Elem()
		for k, c := range list {
			if at[k] < 0 {
				continue
			}
			if err := set[k](v.Field(c.Field), text[at[k]]); err != nil {
				return value, fmt.Errorf("column %q: %w", c.Name, err)
			}
		}
		return value, nil
	}, nil
}

func textSetter(t reflect.Type) setter {
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return func(v reflect.Value, text string) error {
			return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		}
	case t.Kind() == reflect.Pointer:
		return pointerSetter(t, "", textSetter)
	case columns.Scalar(t):
		return setScalar
	}
	return nil
}

// setScalar parses a text into a string, which is the text unchanged, a number or a bool. Spaces
// around numbers are ignored, as in pandas and pyarrow, and around bools too.
func setScalar(v reflect.Value, text string) error {
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	text = strings.Trim(text, " \t")
	var err error
	switch {
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
	case v.CanFloat():
		var x float64
		x, err = strconv.ParseFloat(text, v.Type().Bits())
		v.SetFloat(x)
	default:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	}
	if err != nil {
		var number *strconv.NumError
		if errors.As(err, &number) {
			err = number.Err
		}
		return fmt.Errorf("%.40q is no %v: %w", text, v.Type(), err)
	}
	return nil
}

// objectDecoder returns the decoder of JSON objects into a struct.
func objectDecoder[T any](t reflect.Type) (decoder[T], error) {
	list, err := columns.Of(t)
	if err != nil {
		return nil, err
	}
	if len(list) > 64 {
		return nil, fmt.Errorf("%v has %d columns; want at most 64", t, len(list))
	}
	set := make([]setter, len(list))
	required := uint64(0)
	for k, c := range list {
		if set[k] = jsonSetter(c.Type); set[k] == nil {
			return nil, fmt.Errorf("column %q cannot be a field of type %v; JSON becomes strings, bools, numbers, "+
				"slices of them, pointers to them (nil if null or missing), and json.RawMessage for anything nested",
				c.Name, c.Type)
		}
		if !c.Optional && c.Type.Kind() != reflect.Pointer {
			required |= 1 << k
		}
	}
	return func(row string) (value T, _ error) {
		v := reflect.ValueOf(&value).Elem()
		seen := uint64(0)
		err := walkObject(row, func(key, text string) error {
			k := slices.IndexFunc(list, func(c columns.Column) bool { return c.Matches(key) })
			switch {
			case k < 0:
				return nil
			case seen&(1<<k) != 0:
				return errTwice
			}
			seen |= 1 << k
			if text == "null" && list[k].Optional {
				return nil
			}
			return set[k](v.Field(list[k].Field), text)
		})
		if err != nil {
			return value, err
		}
		if missing := required &^ seen; missing != 0 {
			name := list[bits.TrailingZeros64(missing)].Name
			return value, fmt.Errorf("no column %q; make the field a pointer or its tag `table:\"%s,optional\"` if it may be "+
				"missing", name, name)
		}
		return value, nil
	}, nil
}

// pointerSetter returns a setter that sets the pointer to a new value, or leaves it nil if the text
// is none. It returns nil for pointers to pointers.
func pointerSetter(t reflect.Type, none string, setterOf func(reflect.Type) setter) setter {
	inner := setterOf(t.Elem())
	if inner == nil || t.Elem().Kind() == reflect.Pointer {
		return nil
	}
	return func(v reflect.Value, text string) error {
		if text == none {
			return nil
		}
		v.Set(reflect.New(t.Elem()))
		return inner(v.Elem(), text)
	}
}

func jsonSetter(t reflect.Type) setter {
	switch {
	case t == columns.RawJSON:
		return func(v reflect.Value, text string) error { v.SetBytes([]byte(text)); return nil }
	case t.Kind() == reflect.Pointer:
		return pointerSetter(t, "null", jsonSetter)
	case t.Kind() == reflect.Slice:
		inner := jsonSetter(t.Elem())
		if inner == nil {
			return nil
		}
		return func(v reflect.Value, text string) error { return setArray(v, text, inner) }
	case columns.Scalar(t):
		return setJSON
	}
	return nil
}

// setJSON stores a JSON string, bool or number in a field of that kind.
func setJSON(v reflect.Value, text string) error {
	found := kind(text)
	want := "a number"
	switch v.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "a bool"
	}
	switch {
	case found != want && (found == "an object" || found == "an array"):
		return fmt.Errorf("%s, want %s; a field of type json.RawMessage keeps it as it is", found, want)
	case found != want && found == "null":
		return fmt.Errorf("null, want %s; make the field a pointer or optional if it may be null", want)
	case found != want:
		return fmt.Errorf("%s (%.20s), want %s", found, text, want)
	case want == "a string":
		s, err := unquoteJSON(text)
		v.SetString(s)
		return err
	}
	return setScalar(v, text)
}

// setArray stores a JSON array in a slice.
func setArray(v reflect.Value, text string, inner setter) error {
	if found := kind(text); found != "an array" {
		return fmt.Errorf("%s, want an array", found)
	}
	n := 0
	_ = walkArray(text, func(string) error { n++; return nil }) // the text was checked before
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	k := 0
	return walkArray(text, func(item string) error {
		err := inner(v.Index(k), item)
		if err != nil {
			err = fmt.Errorf("item %d: %w", k, err)
		}
		k++
		return err
	})
}

// otherSeparator adds to an error about missing columns what to do if all names are in one column.
func otherSeparator(err error, f Format, names []string) error {
	if len(names) != 1 || f.Columns != nil || f.Syntax != CSV && f.Syntax != TSV {
		return err
	}
	for _, separator := range ",;\t|" {
		if rune(f.Separator) != separator && strings.ContainsRune(names[0], separator) {
			return fmt.Errorf("%w; if the columns are separated by %q, set Format.Syntax to CSV and Format.Separator", err,
				separator)
		}
	}
	return err
}
