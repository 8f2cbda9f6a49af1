package omegaconf

import (
	"fmt"
	"reflect"
)

// Item is a key with its value. The key is a string or an integer.
type Item struct {
	Key   any
	Value any
}

// Map is an ordered mapping. Values are nil, bool, int, int64, uint64, float64, string, slices of
// these, []any and Map. [Unmarshal] returns integers as int64 and lists as []any.
type Map []Item

// Get returns the value of a key.
func (m Map) Get(key string) (value any, ok bool) {
	for _, item := range m {
		if item.Key == key {
			return item.Value, true
		}
	}
	return nil, false
}

// Set changes the value of a key, or appends the item.
func (m *Map) Set(key string, value any) {
	for i := range *m {
		if (*m)[i].Key == key {
			(*m)[i].Value = value
			return
		}
	}
	*m = append(*m, Item{key, value})
}

// normal converts a value to one of the few types that the emitter knows.
func normal(v any) (any, error) {
	switch v.(type) {
	case nil, bool, uint64, string, []any, Map:
		return v, nil
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), nil
	case r.CanFloat():
		return r.Float(), nil
	case r.Kind() == reflect.Slice:
		list := make([]any, r.Len())
		for i := range list {
			list[i] = r.Index(i).Interface()
		}
		return list, nil
	}
	return nil, fmt.Errorf("omegaconf: a value of type %T; want nil, a bool, a number, a string, a list of these, or "+
		"a Map", v)
}
