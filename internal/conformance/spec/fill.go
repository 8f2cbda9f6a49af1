package spec

import (
	"reflect"
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
	into := reflect.ValueOf(target).Elem()
	goNames := map[string]string{}
	for _, n := range names {
		python, goName, _ := strings.Cut(n, ":")
		goNames[python] = goName
	}
	for _, python := range o.Names() {
		goName, told := goNames[python]
		if !told {
			goName = strings.ReplaceAll(python, "_", "")
		}
		goName, opposite := strings.CutPrefix(goName, "!")
		first, second, two := strings.Cut(goName, ",")
		at := fieldOf(into, first)
		if o.taken[python] || !at.IsValid() {
			continue
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
}

func fieldOf(v reflect.Value, name string) reflect.Value {
	return v.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
}

// set gives a field of a struct a value; null leaves it as it is.
func (o *Object) set(name string, at reflect.Value, value any) {
	if value == nil {
		return
	}
	if at.Kind() == reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		at = at.Elem()
	}
	one := newObject(o.path, map[string]any{name: value}, o.err)
	switch at.Kind() {
	case reflect.Bool:
		at.SetBool(one.Bool(name, false))
	case reflect.String:
		at.SetString(one.String(name, ""))
	case reflect.Float64:
		at.SetFloat(one.Float(name, 0))
	case reflect.Int, reflect.Int64:
		at.SetInt(int64(one.Int(name, 0)))
	default:
		o.wrong(name, "nothing: a "+at.Type().String()+" cannot be filled", value)
	}
}
