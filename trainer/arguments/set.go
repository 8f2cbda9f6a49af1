package arguments

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// setText sets a field to a word of a command line.
func setText(field reflect.Value, word string) error {
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return setText(field.Elem(), word)
	case reflect.Bool:
		truth, err := stringToBool(word)
		field.SetBool(truth)
		return err
	case reflect.Int:
		n, err := strconv.ParseInt(strings.ReplaceAll(word, "_", ""), 10, 64)
		if err != nil {
			return errors.New("a whole number")
		}
		field.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return errors.New("a whole number of at least 0")
		}
		field.SetUint(n)
	case reflect.Float64:
		x, err := strconv.ParseFloat(word, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // which Python rounds to infinity
			return errors.New("a number")
		}
		field.SetFloat(x)
	case reflect.String:
		field.SetString(word)
	case reflect.Slice: // a default
		return set(field, []any{word})
	case reflect.Interface:
		field.Set(reflect.ValueOf(word))
	default:
		return fmt.Errorf("a field of another type than %s", field.Type())
	}
	return nil
}

// set sets a field to a value of a file. Nil is None.
func set(field reflect.Value, value any) error {
	if n, ok := value.(json.Number); ok {
		value, _ = n.Float64()
	}
	switch v := value.(type) {
	case nil:
		if !slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Interface, reflect.String, reflect.Slice},
			field.Kind()) {
			return wrongType(field)
		}
		field.SetZero()
		return nil
	case string:
		if field.Kind() == reflect.Int || field.Kind() == reflect.Float64 || field.Kind() == reflect.Uint64 {
			return wrongType(field)
		}
		return setText(field, v)
	case bool:
		switch {
		case field.Kind() == reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
			return set(field.Elem(), v)
		case field.Kind() == reflect.Bool:
			field.SetBool(v)
		case field.Kind() == reflect.Interface:
			field.Set(reflect.ValueOf(v))
		default:
			return wrongType(field)
		}
		return nil
	case int:
		return setNumber(field, float64(v))
	case float64:
		return setNumber(field, v)
	case []any:
		if field.Kind() == reflect.Interface {
			field.Set(reflect.ValueOf(v))
			return nil
		}
		if field.Kind() != reflect.Slice {
			return wrongType(field)
		}
		list := reflect.MakeSlice(field.Type(), len(v), len(v))
		for i := range v {
			if err := set(list.Index(i), v[i]); err != nil {
				return err
			}
		}
		field.Set(list)
		return nil
	case map[string]any:
		if field.Kind() == reflect.Interface {
			field.Set(reflect.ValueOf(v))
			return nil
		}
	}
	return wrongType(field)
}

func setNumber(field reflect.Value, x float64) error {
	whole := x == math.Trunc(x) && math.Abs(x) < 1<<53
	switch {
	case field.Kind() == reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return setNumber(field.Elem(), x)
	case field.Kind() == reflect.Float64:
		field.SetFloat(x)
	case field.Kind() == reflect.Int && whole:
		field.SetInt(int64(x))
	case field.Kind() == reflect.Uint64 && whole && x >= 0:
		field.SetUint(uint64(x))
	default:
		return wrongType(field)
	}
	return nil
}

func wrongType(field reflect.Value) error {
	names := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int: "a whole number",
		reflect.Uint64: "a whole number of at least 0", reflect.Float64: "a number", reflect.String: "a string",
		reflect.Slice: "a list of strings", reflect.Interface: "a string, a list or an object"}
	kind := field.Kind()
	if kind == reflect.Pointer {
		kind = field.Type().Elem().Kind()
	}
	return errors.New(names[kind])
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

// dictOf is the object that an argument is: one of a file, or JSON on a command line, where words
// within it become truth values and numbers as in _convert_str_dict. Nil is nil.
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
