package arguments

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// refuse checks the fields against their tags. An argument with the tag only may have just its
// default or an empty value.
func (a *TrainingArguments) refuse() error {
	fields, err := fieldsOf([]any{a})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := fields[name]
		usual := reflect.New(f.value.Type()).Elem()
		if err := setDefault(usual, f.tag); err != nil {
			return err
		}
		given := f.value
		want, only := f.tag.Lookup("only")
		if only && !isEmpty(given) && !reflect.DeepEqual(given.Interface(), usual.Interface()) {
			return &Error{name, given.Interface(), want}
		}
		if given.Kind() == reflect.Pointer {
			given = given.Elem()
		}
		least, err := strconv.Atoi(f.tag.Get("least"))
		if err != nil || !given.IsValid() {
			continue
		}
		x := given.Convert(reflect.TypeFor[float64]()).Float()
		if want = "at least " + strconv.Itoa(least); least == 0 {
			want = "0 or more"
		}
		if !(x >= float64(least)) || math.IsInf(x, 0) {
			return &Error{name, given.Interface(), want}
		}
	}
	return nil
}

// isEmpty reports whether a value is empty: [], {}, "" or, for a field of any type, false.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil() || v.Elem().Kind() != reflect.Bool && isEmpty(v.Elem()) || v.Elem().Interface() == false
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	}
	return false
}
