package parquet

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/data/internal/columns"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// column is a column that a field needs.
type column struct {
	name    string
	field   []int // the index path of the field, as for reflect.Value.FieldByIndex
	leaf    int   // the index of the leaf column with the values; -1 for an optional column that the file lacks
	full    int   // the definition level of a value that is not null
	item    int   // the definition level from which a list has an item; 0 if it is not a list
	set     func(v reflect.Value, value parquet.Value) error
	element reflect.Type // of a list: that of its items; of a pointer: what it points to
	text    bool         // set stores strings
	pointer bool         // the field is a pointer, nil if the value is missing
}

// bind finds the columns that the fields of a struct need; names maps names of fields to names in
// the file. A field that is a struct needs columns inside its own column.
func bind(t reflect.Type, from *parquet.Column, names map[string]string) ([]column, error) {
	asked, err := columns.Of(t)
	if err != nil {
		return nil, err
	}
	for k, c := range asked {
		if name, ok := names[c.Name]; ok {
			asked[k].Name, asked[k].Tagged = name, true
		}
	}
	var found []string
	for _, c := range from.Columns() {
		found = append(found, c.Name())
	}
	at, err := columns.Match(asked, found)
	if err != nil {
		return nil, err
	}
	var list []column
	for k, c := range asked {
		if at[k] < 0 {
			list = append(list, column{name: c.Name, field: []int{c.Field}, leaf: -1})
			continue
		}
		inner := from.Columns()[at[k]]
		parts := []column{{}} // the column itself
		if c.Type.Kind() == reflect.Struct && !inner.Leaf() && !inner.Repeated() {
			parts, err = bind(c.Type, inner, nil)
		} else {
			err = parts[0].bind(c.Type, inner)
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", inner.Name(), err)
		}
		for _, part := range parts {
			part.name = strings.TrimSuffix(inner.Name()+"."+part.name, ".")
			part.field = append([]int{c.Field}, part.field...)
			list = append(list, part)
		}
	}
	return list, nil
}

// bind finds the values of a column: the column itself, or what is in it if it is a list.
func (c *column) bind(t reflect.Type, from *parquet.Column) error {
	leaf, level := from, 0
	for {
		if leaf.Optional() || leaf.Repeated() {
			level++
		}
		if leaf.Repeated() {
			if c.item > 0 {
				return fmt.Errorf("it is a list of lists, which no field can take")
			}
			c.item = level
		}
		if leaf.Leaf() {
			break
		}
		inner := leaf.Columns()
		if len(inner) != 1 || !inner[0].Repeated() && c.item == 0 {
			return fmt.Errorf("it is nested (%s), which no field can take; fields are strings, bytes, bools, numbers, "+
				"lists of them and structs", describe(from))
		}
		leaf = inner[0]
	}
	c.leaf, c.full = leaf.Index(), leaf.MaxDefinitionLevel()
	if c.item > 0 {
		if t.Kind() != reflect.Slice {
			return fmt.Errorf("it is a list, the field is %v", t)
		}
		c.element = t.Elem()
		t = t.Elem()
	} else if t.Kind() == reflect.Pointer {
		c.pointer = true
		c.element = t.Elem()
		t = t.Elem()
	}
	c.text = t.Kind() == reflect.String
	var err error
	c.set, err = valueSetter(t, leaf)
	return err
}

// describe names the parts of a nested column.
func describe(c *parquet.Column) string {
	var names []string
	for _, inner := range c.Columns() {
		names = append(names, inner.Name())
	}
	return strings.Join(names, ", ")
}

// weigh returns how many bytes a value needs in addition to the row itself. A shared value is a
// string that another row has too.
func (c column) weigh(v parquet.Value, shared bool) int64 {
	n := int64(0)
	if c.item > 0 || c.pointer && v.DefinitionLevel() == c.full {
		n = int64(c.element.Size())
	}
	if kind := v.Kind(); !shared && (kind == parquet.ByteArray || kind == parquet.FixedLenByteArray) {
		n += int64(len(v.ByteArray()))
	}
	return n
}

// put stores a value in a field, or appends it if the field is a list.
func (c column) put(field reflect.Value, v parquet.Value) error {
	missing := v.DefinitionLevel() < c.full
	switch {
	case c.item > 0 && v.DefinitionLevel() < c.item:
		return nil // a list that is empty or missing
	case c.item > 0 && missing:
		return fmt.Errorf("an item of the list is null, which %v cannot hold", field.Type())
	case c.item > 0:
		field.Grow(1)
		field.SetLen(field.Len() + 1)
		return c.set(field.Index(field.Len()-1), v)
	case missing && c.pointer:
		return nil
	case missing:
		return fmt.Errorf("the value is null; make the field *%v if it may be null", field.Type())
	case c.pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return c.set(field.Elem(), v)
	}
	return c.set(field, v)
}

// valueSetter returns a function that stores values of a column in a variable of type t.
func valueSetter(t reflect.Type, leaf *parquet.Column) (func(reflect.Value, parquet.Value) error, error) {
	kind, unsigned := leaf.Type().Kind(), false
	if logical := leaf.Type().LogicalType(); logical != nil {
		switch logical := logical.Value.(type) {
		case *format.IntType:
			unsigned = !logical.IsSigned
		case *format.StringType, *format.EnumType, *format.JsonType, nil:
		default:
			return nil, fmt.Errorf("it holds %v, which no field can take; convert it to a string or a number where "+
				"the file is made", logical)
		}
	}
	bytes := kind == parquet.ByteArray || kind == parquet.FixedLenByteArray
	whole := kind == parquet.Int32 || kind == parquet.Int64
	switch {
	case bytes && t.Kind() == reflect.String:
		return func(v reflect.Value, value parquet.Value) error {
			text := string(value.ByteArray())
			if !utf8.ValidString(text) {
				return fmt.Errorf("%.40q is not valid UTF-8; a field of type []byte keeps it as it is", text)
			}
			v.SetString(text)
			return nil
		}, nil
	case bytes && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return func(v reflect.Value, value parquet.Value) error {
			v.SetBytes(append([]byte{}, value.ByteArray()...))
			return nil
		}, nil
	case kind == parquet.Boolean && t.Kind() == reflect.Bool:
		return func(v reflect.Value, value parquet.Value) error { v.SetBool(value.Boolean()); return nil }, nil
	case kind == parquet.Float && isFloat(t):
		return func(v reflect.Value, value parquet.Value) error { v.SetFloat(float64(value.Float())); return nil }, nil
	case kind == parquet.Double && isFloat(t):
		return func(v reflect.Value, value parquet.Value) error { v.SetFloat(value.Double()); return nil }, nil
	case whole && isFloat(t):
		return func(v reflect.Value, value parquet.Value) error {
			var n int64
			if err := setInteger(reflect.ValueOf(&n).Elem(), value, kind == parquet.Int32, unsigned); err != nil {
				return err
			}
			if v.SetFloat(float64(n)); v.Float() >= 1<<63 || int64(v.Float()) != n {
				return fmt.Errorf("%d does not fit into %v", n, v.Type())
			}
			return nil
		}, nil
	case whole && columns.Scalar(t) && t.Kind() != reflect.String && t.Kind() != reflect.Bool:
		return func(v reflect.Value, value parquet.Value) error {
			return setInteger(v, value, kind == parquet.Int32, unsigned)
		}, nil
	}
	return nil, fmt.Errorf("its values are %v, the field takes %v", leaf.Type(), t)
}

func isFloat(t reflect.Type) bool { return t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 }

// setInteger stores an integer, or returns an error if it does not fit.
func setInteger(v reflect.Value, value parquet.Value, short, unsigned bool) error {
	if unsigned {
		n := value.Uint64()
		if short {
			n = uint64(value.Uint32())
		}
		if v.CanUint() && !v.OverflowUint(n) {
			v.SetUint(n)
			return nil
		}
		if v.CanInt() && n <= 1<<63-1 && !v.OverflowInt(int64(n)) {
			v.SetInt(int64(n))
			return nil
		}
		return fmt.Errorf("%d does not fit into %v", n, v.Type())
	}
	n := int64(0)
	if short {
		n = int64(value.Int32())
	} else {
		n = value.Int64()
	}
	if v.CanInt() && !v.OverflowInt(n) {
		v.SetInt(n)
		return nil
	}
	if v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)) {
		v.SetUint(uint64(n))
		return nil
	}
	return fmt.Errorf("%d does not fit into %v", n, v.Type())
}
