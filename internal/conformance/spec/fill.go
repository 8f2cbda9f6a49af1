package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// NewObject makes an object from fields such as [Object.Map] returns.
func NewObject(path string, fields map[string]any) *Object {
	return newObject(path, fields, new(error))
}

// Fill sets the fields of the struct that target points to from the object's fields with the same
// name in Go's spelling: "lr_min" sets LRMin. Absent or null fields change nothing. names lists the
// exceptions: "patience:EarlyStoppingPatience" for a different name, "save_at_end:!NotAtEnd" for a
// negated one, "betas:Beta1,Beta2" for a list of two.
func (o *Object) Fill(target any, names ...string) {
	o.Take(target, names...)
	into := reflect.ValueOf(target).Elem()
	for _, python := range o.Names() {
		if told := func(n string) bool { return strings.HasPrefix(n, python+":") }; !slices.ContainsFunc(names, told) {
			o.fill(into, python, strings.ReplaceAll(python, "_", ""))
		}
	}
}

// Take is like Fill, but only for the fields in names.
func (o *Object) Take(target any, names ...string) {
	for _, n := range names {
		python, goName, _ := strings.Cut(n, ":")
		o.fill(reflect.ValueOf(target).Elem(), python, goName)
	}
}

func (o *Object) fill(into reflect.Value, python, goName string) {
	goName, opposite := strings.CutPrefix(goName, "!")
	first, second, two := strings.Cut(goName, ",")
	at := fieldOf(into, first)
	if !at.CanSet() || o.taken[python] {
		return
	}
	v := o.Any(python)
	list, _ := v.([]any)
	switch {
	case v == nil:
	case two && len(list) == 2:
		o.set(python, at, list[0])
		o.set(python, fieldOf(into, second), list[1])
	case two:
		o.wrong(python, "a list of two numbers", v)
	case opposite:
		at.SetBool(!o.Bool(python, false))
	default:
		o.set(python, at, v)
	}
}

func fieldOf(v reflect.Value, name string) reflect.Value {
	return v.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
}

// set converts the value of a field to the type of to; null changes nothing. A value of the wrong
// type is recorded as the object's error.
func (o *Object) set(name string, to reflect.Value, v any) bool {
	if v == nil {
		return true
	}
	want, ok := o.convert(name, to, v)
	if !ok {
		o.wrong(name, want, v)
	}
	return ok
}

// convert sets to. If it cannot, want says what the value should have been.
func (o *Object) convert(name string, to reflect.Value, v any) (want string, ok bool) {
	if p, isObject := to.Addr().Interface().(**Object); isObject {
		fields, ok := v.(map[string]any)
		*p = newObject(o.at(name), fields, o.err)
		return "an object", ok
	}
	switch kind := to.Kind(); {
	case to.Type() == reflect.TypeFor[map[string]any]():
		fields, ok := v.(map[string]any)
		to.Set(reflect.ValueOf(fields))
		return "an object", ok
	case kind == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return o.convert(name, to.Elem(), v)
	case kind == reflect.Slice:
		return o.convertList(name, to, v)
	case kind == reflect.Bool:
		b, ok := v.(bool)
		to.SetBool(b)
		return "true or false", ok
	case kind == reflect.String:
		s, ok := v.(string)
		to.SetString(s)
		return "a string", ok
	case to.CanFloat():
		f, ok := number(v)
		to.SetFloat(f)
		return "a number", ok
	case to.CanInt():
		i, ok := whole(v)
		to.SetInt(i)
		return "a whole number", ok
	case to.CanUint():
		i, ok := whole(v)
		to.SetUint(uint64(i))
		return "a whole number", ok
	}
	return "nothing: a " + to.Type().String() + " cannot be filled", false
}

// convertList is convert for a list. Integers in it must be written without a fraction.
func (o *Object) convertList(name string, to reflect.Value, v any) (want string, ok bool) {
	list, ok := v.([]any)
	one := reflect.New(to.Type().Elem()).Elem()
	want, _ = o.convert(name, one, nil)
	_, want, _ = strings.Cut(want, " ")
	to.SetZero()
	for i, e := range list {
		_, is := o.convert(fmt.Sprintf("%s[%d]", name, i), one, e)
		if n, isNumber := e.(json.Number); isNumber && one.CanInt() {
			is = is && !strings.ContainsAny(n.String(), ".eE")
		}
		ok = ok && is
		to.Set(reflect.Append(to, one))
	}
	return "a list of " + want + "s", ok
}

func number(v any) (float64, bool) {
	if f, ok := v.(float64); ok { // from [NewObject]
		return f, true
	}
	n, ok := v.(json.Number)
	f, err := n.Float64()
	return f, ok && err == nil
}

func whole(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if i, err := n.Int64(); ok && err == nil {
		return i, true
	}
	f, ok := number(v)
	return int64(f), ok && f == math.Trunc(f) && math.Abs(f) < 1<<52
}
