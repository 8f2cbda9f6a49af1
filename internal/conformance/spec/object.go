package spec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Object reads a JSON object field by field. Each method takes one field, with a default if the
// field is absent. The first value of a wrong type is recorded, so that a reader need not check for
// errors after every field; [Object.Done] returns that error, or an [*Unsupported] that names the
// fields that were not taken: what is not understood must not be ignored.
type Object struct {
	path   string // for messages: "args", "phases[1].args"; empty for the whole file
	fields map[string]any
	taken  map[string]bool
	err    *error // shared with nested objects
}

// Unsupported is the error for a part of a case that cannot be run here.
type Unsupported struct {
	What string
}

func (u *Unsupported) Error() string { return u.What }

// TypeError is the error for a field with an invalid value. It is a mistake in the case, not a
// result of running it.
type TypeError struct{ Field, Found, Want string }

func (e *TypeError) Error() string { return fmt.Sprintf("%s is %s, want %s", e.Field, e.Found, e.Want) }

// Unsupportedf returns an [*Unsupported].
func Unsupportedf(format string, args ...any) error {
	return &Unsupported{fmt.Sprintf(format, args...)}
}

// maxDepth limits how deeply a specification may be nested.
const maxDepth = 32

// ParseObject parses a text that must be a single JSON object. Numbers are json.Number, to
// distinguish integers from fractions. Duplicate keys are an error.
func ParseObject(text []byte) (*Object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := parseValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // Token returns it bare
		return nil, fmt.Errorf("byte %d: there is something behind the first value", d.InputOffset())
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it holds %s, want an object", describe(value))
	}
	return newObject("", fields, new(error)), nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delimiter, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	list, fields := []any{}, map[string]any{}
	for d.More() {
		name := ""
		if delimiter == '{' {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ = key.(string) // keys are always strings
			if _, twice := fields[name]; twice {
				return nil, fmt.Errorf("the key %q occurs twice", name)
			}
		}
		v, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		if fields[name] = v; delimiter == '[' {
			list = append(list, v)
		}
	}
	if _, err = d.Token(); delimiter == '[' {
		return list, err
	}
	return fields, err
}

func newObject(path string, fields map[string]any, err *error) *Object {
	return &Object{path: path, fields: fields, taken: map[string]bool{}, err: err}
}

// Merge returns a new object with the fields of o and of others, later ones taking precedence. No
// field counts as taken. Nil objects are empty.
func (o *Object) Merge(others ...*Object) *Object {
	merged, path := map[string]any{}, ""
	for _, from := range append([]*Object{o}, others...) {
		if from != nil {
			path = cmp.Or(path, from.path)
			maps.Copy(merged, from.fields)
		}
	}
	return newObject(path, merged, new(error))
}

// Has reports whether the field is present, even if null. It does not take it.
func (o *Object) Has(name string) bool { _, ok := o.fields[name]; return ok }

// Names returns the names of all fields, sorted.
func (o *Object) Names() []string {
	return slices.Sorted(maps.Keys(o.fields))
}

// Any takes a field without converting it: nil, bool, json.Number, string, []any or map[string]any.
func (o *Object) Any(name string) any {
	o.taken[name] = true
	return o.fields[name]
}

// Map takes all fields without converting them.
func (o *Object) Map() map[string]any {
	for k := range o.fields {
		o.taken[k] = true
	}
	return o.fields
}

func (o *Object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

func (o *Object) wrong(name, want string, found any) {
	if *o.err == nil {
		*o.err = &TypeError{o.at(name), describe(found), want}
	}
}

// Fail records that a field has an invalid value.
func (o *Object) Fail(name, want string) { o.wrong(name, want, o.fields[name]) }

// get takes a field as a T. If the field is absent, null or of the wrong type, it returns absent.
func get[T any](o *Object, name string, absent T) T {
	found := absent
	if o.set(name, reflect.ValueOf(&found).Elem(), o.Any(name)) {
		return found
	}
	return absent
}

// Float takes a number.
func (o *Object) Float(name string, absent float64) float64 { return get(o, name, absent) }

// FloatOrNil takes a number that may be absent or null.
func (o *Object) FloatOrNil(name string) *float64 { return get[*float64](o, name, nil) }

// Int takes an integer. It may be written with a zero fraction, such as 3.0.
func (o *Object) Int(name string, absent int) int { return get(o, name, absent) }

// Bool takes true or false.
func (o *Object) Bool(name string, absent bool) bool { return get(o, name, absent) }

// String takes a string.
func (o *Object) String(name, absent string) string { return get(o, name, absent) }

// OneOf takes a string, which must be one of values; any other makes the case unsupported.
func (o *Object) OneOf(name, absent string, values ...string) string {
	s := o.String(name, absent)
	if *o.err == nil && !slices.Contains(values, s) && s != absent {
		*o.err = Unsupportedf("%s is %q; known are %s", o.at(name), s, strings.Join(values, ", "))
	}
	return s
}

// Strings takes a list of strings.
func (o *Object) Strings(name string) []string { return get[[]string](o, name, nil) }

// Ints takes a list of integers, which must be written without fractions.
func (o *Object) Ints(name string) []int { return get[[]int](o, name, nil) }

// Object takes a nested object, or nil if it is absent.
func (o *Object) Object(name string) *Object { return get[*Object](o, name, nil) }

// Objects takes a list of objects.
func (o *Object) Objects(name string) []*Object { return get[[]*Object](o, name, nil) }

// Err returns the first error so far.
func (o *Object) Err() error { return *o.err }

// Done returns the first error, or an [*Unsupported] that names the fields that were not taken.
// Nested objects must be checked by their own calls.
func (o *Object) Done() error {
	if o == nil {
		return nil
	}
	if *o.err != nil {
		return *o.err
	}
	var left []string
	for _, name := range o.Names() {
		if !o.taken[name] {
			left = append(left, o.at(name))
		}
	}
	if left == nil {
		return nil
	}
	return Unsupportedf("the field %s is not known", strings.Join(left, ", "))
}

// describe describes a JSON value for messages.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case string:
		if len(v) > 40 {
			v = v[:40] + "..."
		}
		return strconv.Quote(v)
	default:
		return fmt.Sprint(v)
	}
}
