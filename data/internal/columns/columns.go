// Package columns finds the columns of a table that the fields of a struct ask for. It holds what
// package table and package parquet have in common, so that the same struct reads both:
//
//	type Pair struct {
//		A     string  `table:"sentence1"`
//		B     string  `table:"sentence2,optional"` // the column may be missing
//		Label *int    `table:"label"`              // the value may be missing
//		Score float64                              // the column "Score", "score" or "SCORE"
//		Cache []byte  `table:"-"`                  // no column
//	}
package columns

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Column is the column that a field of a struct needs.
type Column struct {
	Name     string // of the column
	Tagged   bool   // the name is from a tag and must match exactly
	Optional bool   // the column may be missing
	Field    int    // the index of the field
	Type     reflect.Type
}

// Of returns the columns that the exported fields of a struct need.
func Of(t reflect.Type) ([]Column, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is no struct", t)
	}
	var list []Column
	for i := range t.NumField() {
		field := t.Field(i)
		tag, tagged := field.Tag.Lookup("table")
		switch {
		case tag == "-", !field.IsExported() && !tagged:
			continue
		case !field.IsExported():
			return nil, fmt.Errorf("field %s of %v has a tag but is not exported", field.Name, t)
		case field.Anonymous:
			return nil, fmt.Errorf("field %s of %v is embedded; name its columns in %v itself", field.Name, t, t)
		}
		name, option, _ := strings.Cut(tag, ",")
		if option != "" && option != "optional" {
			return nil, fmt.Errorf("field %s of %v has the tag option %q; the only one is optional", field.Name, t,
				option)
		}
		c := Column{Name: name, Tagged: name != "", Optional: option == "optional", Field: i, Type: field.Type}
		if name == "" {
			c.Name = field.Name
		}
		for _, other := range list {
			if other.Name == c.Name || !(other.Tagged && c.Tagged) && strings.EqualFold(other.Name, c.Name) {
				return nil, fmt.Errorf("fields %s and %s of %v ask for the same column, %q", t.Field(other.Field).Name,
					field.Name, t, c.Name)
			}
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%v has no exported field, so it takes no column", t)
	}
	return list, nil
}

// Matches reports whether name is the name of the column.
func (c Column) Matches(name string) bool {
	return c.Name == name || !c.Tagged && strings.EqualFold(c.Name, name)
}

// Match returns for each column its index among names, or -1 if an optional column is missing.
func Match(list []Column, names []string) ([]int, error) {
	at := make([]int, len(list))
	for k, c := range list {
		at[k] = slices.IndexFunc(names, c.Matches)
		switch {
		case at[k] < 0 && !c.Optional:
			return nil, fmt.Errorf("no column %q; there are %q", c.Name, names)
		case at[k] >= 0 && slices.ContainsFunc(names[at[k]+1:], c.Matches):
			return nil, fmt.Errorf("two columns %q; there are %q", c.Name, names)
		}
	}
	return at, nil
}

// Scalar reports whether values of a type are single strings, bools or numbers.
func Scalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return false
}

// RawJSON is the type of a field that keeps JSON unchanged.
var RawJSON = reflect.TypeFor[json.RawMessage]()
