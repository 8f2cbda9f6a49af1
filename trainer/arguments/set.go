package arguments

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// word is a value from a command line, or a default. It may represent a number.
type word string

// set sets a field to a word or to a value from a file. Nil is None.
func set(field reflect.Value, value any) error {
	if words, ok := value.([]string); ok { // a list from a program
		list := make([]any, len(words))
		for i, w := range words {
			list[i] = w
		}
		return set(field, list)
	}
	text, isText := value.(string)
	if w, ok := value.(word); ok {
		text, isText = string(w), true
	}
	switch kind := field.Kind(); {
	case value == nil && (kind == reflect.Pointer || kind == reflect.Interface || kind == reflect.String ||
		kind == reflect.Slice):
		field.SetZero()
		return nil
	case kind == reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		if isText { // as in Python for optional types, a string may represent a number
			value = word(text)
		}
		return set(field.Elem(), value)
	case kind == reflect.Interface && isText, kind == reflect.String && isText:
		field.Set(reflect.ValueOf(text))
		return nil
	case kind == reflect.Interface:
		switch value.(type) {
		case bool, []any, map[string]any:
			field.Set(reflect.ValueOf(value))
			return nil
		}
	case kind == reflect.Bool && isText:
		truth, err := stringToBool(text)
		field.SetBool(truth)
		return err
	case kind == reflect.Bool:
		if truth, ok := value.(bool); ok {
			field.SetBool(truth)
			return nil
		}
	case kind == reflect.Slice && isText:
		return set(field, []any{value})
	case kind == reflect.Slice:
		if list, ok := value.([]any); ok {
			return setList(field, list)
		}
	case setNumber(field, value):
		return nil
	}
	return errors.New(cmp.Or(typeNames[field.Kind()], "a field of another type than "+field.Type().String()))
}

// typeNames say what a field wants when it gets a value of another type.
var typeNames = map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int: "a whole number",
	reflect.Uint64: "a whole number of at least 0", reflect.Float64: "a number", reflect.String: "a string",
	reflect.Slice: "a list of strings", reflect.Interface: "a string, a list or an object"}

func setList(field reflect.Value, values []any) error {
	list := reflect.MakeSlice(field.Type(), len(values), len(values))
	for i, value := range values {
		if err := set(list.Index(i), value); err != nil {
			return err
		}
	}
	field.Set(list)
	return nil
}

// setNumber sets a field to a number if the value is one that it can hold.
func setNumber(field reflect.Value, value any) bool {
	text := ""
	switch v := value.(type) {
	case word:
		text = string(v)
	case int:
		text = strconv.Itoa(v)
	case json.Number:
		x, err := v.Float64()
		return err == nil && setNumber(field, x)
	case float64:
		format := byte('f')
		if math.Abs(v) >= 1<<53 { // not a whole number, since its last digits are not known
			format = 'g'
		}
		text = strconv.FormatFloat(v, format, -1, 64)
	}
	var err error
	switch field.Kind() {
	case reflect.Int:
		var n int64
		n, err = strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		field.SetInt(n)
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		field.SetUint(n)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		field.SetFloat(x)
		if isNumber(text) { // a number out of range, which Python rounds to infinity
			err = nil
		}
	default:
		return false
	}
	return err == nil
}

func setDefault(field reflect.Value, tag reflect.StructTag) error {
	field.SetZero()
	if usual, ok := tag.Lookup("default"); ok {
		return set(field, word(usual))
	}
	return nil
}

// stringToBool is string_to_bool of hf_argparser.py.
func stringToBool(word string) (bool, error) {
	switch strings.ToLower(word) {
	case "yes", "true", "t", "y", "1":
		return true, nil
	case "no", "false", "f", "n", "0":
		return false, nil
	}
	return false, errors.New("yes or no, true or false, t or f, y or n, 1 or 0")
}

func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// dictOf returns the object that is the value of an argument: a map from a file, or JSON from a
// command line. In the latter, words become truth values and numbers, as in _convert_str_dict. Nil
// is nil.
func dictOf(value any) (map[string]any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	case string:
		if dict := map[string]any{}; strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &dict) == nil {
			convertWords(dict)
			return dict, nil
		}
	}
	return nil, errors.New(`an object such as {"num_cycles": 2}`)
}

func convertWords(dict map[string]any) {
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	for name, value := range dict {
		switch v := value.(type) {
		case map[string]any:
			convertWords(v)
		case string:
			switch {
			case strings.EqualFold(v, "true"), strings.EqualFold(v, "false"):
				dict[name] = strings.EqualFold(v, "true")
			case digits(strings.Replace(v, ".", "", 1)):
				dict[name], _ = strconv.ParseFloat(v, 64)
			}
		}
	}
}
