package configfile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// Field is a key in a file with the place of its value: a pointer to the value, to a pointer that
// is nil if the key is missing, or a [Coder]. Empty strings and nil lists are omitted from a file.
type Field struct {
	Key string
	At  any
}

// Fields returns fields from alternating keys and places, in the order of a file.
func Fields(keysAndPlaces ...any) []Field {
	fields := make([]Field, len(keysAndPlaces)/2)
	for i := range fields {
		fields[i] = Field{keysAndPlaces[2*i].(string), keysAndPlaces[2*i+1]}
	}
	return fields
}

// Coder is a value with its own representation in a file.
type Coder interface {
	Encode() any        // nil: the key is omitted
	Decode(v any) error // v is not nil; a [Want] error says what it should have been
}

// Want is the error for a value of the wrong type, and says what it should have been.
type Want string

func (w Want) Error() string { return "want " + string(w) }

// Const is a string that a key must have if it is present.
type Const string

func (c Const) Encode() any { return string(c) }

func (c Const) Decode(v any) error {
	if v != string(c) {
		return Want(c)
	}
	return nil
}

// Count is a number that is omitted from a file if it is 0.
type Count int

func (n *Count) Encode() any {
	if *n == 0 {
		return nil
	}
	return int(*n)
}

func (n *Count) Decode(v any) error {
	i, ok := v.(int64)
	if !ok || i < 0 {
		return Want("a number of at least 0")
	}
	*n = Count(i)
	return nil
}

// Encode returns a mapping of the keys that have a value.
func Encode(fields []Field) (m omegaconf.Map) {
	for _, f := range fields {
		if v := f.value(); v != nil {
			m = append(m, omegaconf.Item{Key: f.Key, Value: v})
		}
	}
	return m
}

func (f Field) value() any {
	if c, ok := f.At.(Coder); ok {
		return c.Encode()
	}
	v := reflect.ValueOf(f.At).Elem()
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.String && v.Len() == 0 || v.Kind() == reflect.Slice && v.IsNil() {
		return nil
	}
	return v.Interface()
}

// Decode decodes the values of a mapping into the fields. Other keys are ignored.
func Decode(m omegaconf.Map, fields []Field) error {
	for _, f := range fields {
		v, _ := m.Get(f.Key)
		if v == nil {
			continue
		}
		err := set(f.At, v)
		if want, ok := errors.AsType[Want](err); ok {
			return fmt.Errorf("%s is %v; %w", f.Key, v, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DecodeAll is like Decode, but refuses other keys.
func DecodeAll(m omegaconf.Map, fields []Field) error {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.Key)
	}
	for _, item := range m {
		if !slices.Contains(keys, fmt.Sprint(item.Key)) {
			return fmt.Errorf("the key %v is unknown; known are %s", item.Key, strings.Join(keys, ", "))
		}
	}
	return Decode(m, fields)
}

// kinds describes the expected values in messages.
var kinds = map[reflect.Type]Want{
	reflect.TypeFor[string](): "a text", reflect.TypeFor[int](): "an integer", reflect.TypeFor[int64](): "an integer",
	reflect.TypeFor[float64](): "a number", reflect.TypeFor[bool](): "true or false",
	reflect.TypeFor[omegaconf.Map](): "a mapping", reflect.TypeFor[[]string](): "a list of names",
	reflect.TypeFor[[]float64](): "a number or a list of numbers",
}

func set(at, v any) error {
	if c, ok := at.(Coder); ok {
		return c.Decode(v)
	}
	to := reflect.ValueOf(at).Elem()
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	n, whole := v.(int64)
	switch list, isList := v.([]any); {
	case reflect.TypeOf(v).AssignableTo(to.Type()):
		to.Set(reflect.ValueOf(v))
		return nil
	case whole && (to.CanInt() || to.CanFloat()):
		to.Set(reflect.ValueOf(n).Convert(to.Type()))
		return nil
	case to.Kind() != reflect.Slice:
	case isList:
		to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
		for i, item := range list {
			if item == nil || set(to.Index(i).Addr().Interface(), item) != nil {
				return kinds[to.Type()]
			}
		}
		return nil
	case to.Type().Elem().Kind() == reflect.Float64: // a single number
		number := 0.0
		err := set(&number, v)
		to.Set(reflect.ValueOf([]float64{number}))
		if err == nil {
			return nil
		}
	}
	return kinds[to.Type()]
}
