package trainer

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
)

// settingsText names the type of a value and its nonzero fields: "Cosine, Warmup 0.05". The text is
// the same in every build of the program, so it has no addresses or functions.
func settingsText(v any) string {
	return describe(reflect.ValueOf(v), 0)
}

// A text covers a value to this depth, and lists up to this many elements. For longer lists it has
// a checksum.
const (
	mostDepth    = 4
	mostElements = 16
)

func describe(v reflect.Value, depth int) string {
	v = pointed(v)
	if !v.IsValid() {
		return ""
	}
	var b strings.Builder
	b.WriteString(v.Type().Name())
	if v.Kind() != reflect.Struct || depth == mostDepth {
		return b.String()
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || v.Field(i).IsZero() {
			continue
		}
		if text := describeField(v.Field(i), depth+1); text != "" {
			fmt.Fprintf(&b, ", %s %s", f.Name, text)
		}
	}
	return b.String()
}

// describeField returns the text for the value of a field; empty if it has none.
func describeField(v reflect.Value, depth int) string {
	v = pointed(v)
	switch v.Kind() {
	case reflect.Invalid, reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Map:
		return ""
	case reflect.Struct:
		return "(" + describe(v, depth) + ")"
	case reflect.Slice, reflect.Array:
		return describeList(v, depth)
	}
	return fmt.Sprint(v)
}

func describeList(v reflect.Value, depth int) string {
	sum := fnv.New64a()
	var texts []string
	for i := range v.Len() {
		text := cmp.Or(describeField(v.Index(i), depth), "_")
		_, _ = fmt.Fprintln(sum, text)
		if i < mostElements {
			texts = append(texts, text)
		}
	}
	if v.Len() > mostElements {
		return fmt.Sprintf("%d values (%016x)", v.Len(), sum.Sum64())
	}
	return "[" + strings.Join(texts, " ") + "]"
}

// pointed follows pointers and interfaces to the value behind them.
func pointed(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}
