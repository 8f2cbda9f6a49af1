package spec

import (
	"reflect"
	"slices"
	"strings"
)

// NewObject makes an object of fields as [Object.Map] returns them.
func NewObject(path string, fields map[string]any) *Object {
	return newObject(path, fields, new(error))
}

// Fill takes every field of the object that the struct behind target has under the same name in
// Go's spelling: "lr_min" is LRMin. A field that is absent or null leaves the struct's as it is.
// Names that differ are told: "patience:EarlyStoppingPatience" for another word,
// "save_at_end:!NotAtEnd" for the opposite, "betas:Beta1,Beta2" for a list of two.
func (o *Object) Fill(target any, names ...string) {
	o.Take(target, names...)
	into := reflect.ValueOf(target).Elem()
	for _, python := range o.Names() {
		if told := func(n string) bool { return strings.HasPrefix(n, python+":") }; !slices.ContainsFunc(names, told) {
			o.fill(into, python, strings.ReplaceAll(python, "_", ""))
		}
	}
}

// Take is Fill for the fields that are told, and no others.
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
	v, ok := o.take(python)
	list, isList := v.([]any)
	switch {
	case !ok:
	case two && isList && len(list) == 2:
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

// set gives a field of a struct a value; null leaves it as it is.
func (o *Object) set(name string, at reflect.Value, v any) {
	if v == nil {
		return
	}
	one := newObject(o.path, map[string]any{name: v}, o.err)
	switch p := at.Addr().Interface().(type) {
	case **Object:
		*p = one.Object(name)
		return
	case *[]*Object:
		*p = one.Objects(name)
		return
	case *[]string:
		*p = one.Strings(name)
		return
	case *map[string]any:
		if inner := one.Object(name); inner != nil {
			*p = inner.fields
		}
		return
	}
	if at.Kind() == reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		at = at.Elem()
	}
	switch {
	case at.Kind() == reflect.Bool:
		at.SetBool(one.Bool(name, false))
	case at.Kind() == reflect.String:
		at.SetString(one.String(name, ""))
	case at.CanFloat():
		at.SetFloat(one.Float(name, 0))
	case at.CanInt():
		at.SetInt(int64(one.Int(name, 0)))
	case at.CanUint():
		at.SetUint(uint64(one.Int(name, 0)))
	default:
		o.wrong(name, "nothing: a "+at.Type().String()+" cannot be filled", v)
	}
}
