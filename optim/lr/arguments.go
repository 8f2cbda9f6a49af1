package lr

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// arguments are the Python keyword arguments of a schedule. The function that builds the schedule
// reads every argument that it knows; any other argument is unknown. The first error is kept.
type arguments struct {
	schedule string
	given    map[string]any
	known    []string
	err      error
	// ByName, for schedules that contain other schedules
	byName func(name string, kwargs map[string]any, warmup float64) (Schedule, error)
}

// take returns an argument. ok is false if it was not given or is None.
func (a *arguments) take(name string) (value any, ok bool) {
	a.known = append(a.known, name)
	value, ok = a.given[name]
	return value, ok && value != nil
}

func (a *arguments) wrong(name string, value any, want string) {
	if a.err == nil {
		a.err = &ArgumentError{a.schedule, name, value, want}
	}
}

// number reads a number into a field whose default is its zero value.
func (a *arguments) number(name string, field *float64) {
	if v, ok := a.take(name); ok {
		if *field, ok = toFloat(v); !ok {
			a.wrong(name, v, "a number")
		}
	}
}

// nonzero reads a number into a field whose zero value stands for another default.
func (a *arguments) nonzero(name string, field *float64) {
	if a.number(name, field); *field == 0 {
		if v, ok := a.given[name]; ok && v != nil {
			a.wrong(name, v, "a number other than 0")
		}
	}
}

func (a *arguments) optional(name string, field **float64) {
	if v, ok := a.given[name]; ok && v != nil {
		*field = new(float64)
		a.number(name, *field)
		return
	}
	a.known = append(a.known, name)
}

func (a *arguments) count(name string, field *int) {
	if v, ok := a.take(name); ok {
		if *field, ok = toInt(v); !ok {
			a.wrong(name, v, "a whole number below 2^31")
		}
	}
}

func (a *arguments) positive(name string, field *int) {
	if a.count(name, field); *field == 0 {
		if v, ok := a.given[name]; ok && v != nil {
			a.wrong(name, v, "a positive whole number")
		}
	}
}

func (a *arguments) optionalCount(name string, field **int) {
	if v, ok := a.given[name]; ok && v != nil {
		*field = new(int)
		a.count(name, *field)
		return
	}
	a.known = append(a.known, name)
}

func (a *arguments) flag(name string, field *bool) {
	if v, ok := a.take(name); ok {
		if *field, ok = v.(bool); !ok {
			a.wrong(name, v, "true or false")
		}
	}
}

// off reads a flag that is on by default in Python into a field that turns it off.
func (a *arguments) off(name string, field *bool) {
	on := true
	a.flag(name, &on)
	*field = !on
}

func (a *arguments) counts(name string, field *[]int) {
	v, ok := a.take(name)
	if !ok {
		return
	}
	switch v := v.(type) {
	case []int:
		*field = slices.Clone(v)
	case []any:
		for _, element := range v {
			n, ok := toInt(element)
			if !ok {
				a.wrong(name, element, "whole numbers below 2^31 only")
			}
			*field = append(*field, n)
		}
	default:
		a.wrong(name, v, "a list of whole numbers")
	}
}

func (a *arguments) required(names ...string) {
	for _, name := range names {
		if v, ok := a.given[name]; !ok || v == nil {
			a.wrong(name, nil, "it set; it has no default")
		}
	}
}

// text reads a string, possibly of a named type.
func text[T ~string](a *arguments, name string, field *T) {
	v, ok := a.take(name)
	if !ok {
		return
	}
	switch v := v.(type) {
	case string:
		*field = T(v)
	case T:
		*field = v
	default:
		a.wrong(name, v, "a string")
	}
}

// value reads a value that only Go code can pass, such as a function.
func value[T any](a *arguments, name string, field *T, want string) {
	if v, ok := a.take(name); ok {
		if *field, ok = v.(T); !ok {
			a.wrong(name, v, want)
		}
	}
}

// finish returns the first error, or an error for an argument that is unknown.
func (a *arguments) finish() error {
	known := slices.Compact(slices.Sorted(slices.Values(a.known)))
	if v, ok := a.given["last_epoch"]; ok {
		if n, whole := toInt(v); !whole || n != -1 {
			a.wrong("last_epoch", v, "-1, its default: a schedule has no state, a run continues from a checkpoint")
		}
		known = append(known, "last_epoch")
	}
	for _, name := range slices.Sorted(maps.Keys(a.given)) {
		if !slices.Contains(known, name) {
			return &UnknownError{What: "argument of " + a.schedule, Name: name, Known: known}
		}
	}
	return a.err
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

func toInt(v any) (int, bool) {
	f, ok := toFloat(v)
	if !ok || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return 0, false
	}
	return int(f), true
}
