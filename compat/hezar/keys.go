package hezar

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// key is a key of a YAML file and where its value is: a pointer to it, to a pointer that is nil
// where the key is missing, or a coder.
type key struct {
	name string
	at   any
}

// coder is a value that a file has in a form of its own.
type coder interface {
	value() any                         // nil: the key is left out
	set(v any) (want string, err error) // want: what v, which is not nil, should have been
}

// write is the mapping of the keys that have a value.
func write(keys []key) (m omegaconf.Map) {
	for _, k := range keys {
		if v := k.value(); v != nil {
			m = append(m, omegaconf.Item{Key: k.name, Value: v})
		}
	}
	return m
}

func (k key) value() any {
	if c, ok := k.at.(coder); ok {
		return c.value()
	}
	v := reflect.ValueOf(k.at).Elem()
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.String && v.Len() == 0 || v.Kind() == reflect.Slice && v.IsNil() {
		return nil
	}
	return v.Interface()
}

// read puts the values of a mapping where the keys say. It refuses other keys, and values of
// another kind.
func read(m omegaconf.Map, keys []key) error {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
		v, _ := m.Get(k.name)
		if v == nil {
			continue
		}
		want, err := set(k.at, v)
		if err != nil {
			return err
		}
		if want != "" {
			return fmt.Errorf("%s is %v; want %s", k.name, v, want)
		}
	}
	for _, item := range m {
		if !slices.Contains(names, fmt.Sprint(item.Key)) {
			return fmt.Errorf("the key %v is unknown; known are %s", item.Key, strings.Join(names, ", "))
		}
	}
	return nil
}

// set puts a value where it belongs, or says what it should have been.
func set(at, v any) (want string, err error) {
	if c, ok := at.(coder); ok {
		return c.set(v)
	}
	to := reflect.ValueOf(at).Elem()
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if n, whole := v.(int64); whole && (to.Kind() == reflect.Int || to.Kind() == reflect.Float64) {
		to.Set(reflect.ValueOf(n).Convert(to.Type()))
		return "", nil
	}
	if !reflect.TypeOf(v).AssignableTo(to.Type()) {
		return map[reflect.Kind]string{reflect.String: "a text", reflect.Int: "an integer", reflect.Float64: "a number",
			reflect.Bool: "true or false", reflect.Slice: "a mapping"}[to.Kind()], nil
	}
	to.Set(reflect.ValueOf(v))
	return "", nil
}

// names is a list of names.
type names []string

func (n *names) value() any { return []string(*n) }

func (n *names) set(v any) (want string, err error) {
	list, _ := v.([]any)
	for _, item := range list {
		name, ok := item.(string)
		if !ok {
			return "a list of names", nil
		}
		*n = append(*n, name)
	}
	if list == nil {
		want = "a list of names"
	}
	return want, nil
}
