package jinja

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Value is a Python value: nil is None; bool, int64, float64 and string are bool, int, float and
// str; others are of the types below.
type Value any

// markup is a string marked as safe by a filter such as safe or escape. A string that is added to
// it is escaped.
type markup string

// kind is the Python type of a List.
type kind string

const (
	kindList   kind = "list"
	kindTuple  kind = "tuple"
	kindItems  kind = "dict_items"
	kindKeys   kind = "dict_keys"
	kindValues kind = "dict_values"
	kindRange  kind = "range"
)

// List is a list, a tuple, a range or a view of a dictionary. It is immutable.
type List struct {
	kind  kind
	items []Value
	text  string // the repr of a range
}

// NewList makes a list.
func NewList(items ...Value) *List { return &List{kind: kindList, items: items} }

func newTuple(items ...Value) *List { return &List{kind: kindTuple, items: items} }

// Dict is a dictionary; its keys keep their order.
type Dict struct {
	keys, values []Value
	at           map[any]int
}

// NewDict makes an empty dictionary.
func NewDict() *Dict { return &Dict{at: map[any]int{}} }

// Set sets the value of a key. An existing key keeps its place in the order.
func (d *Dict) Set(key, value Value) {
	h := hash(key, 0)
	if i, ok := d.at[h]; ok {
		d.values[i] = value
		return
	}
	d.at[h] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

// Get returns the value of a key.
func (d *Dict) Get(key Value) (Value, bool) {
	i, ok := d.at[hash(key, 0)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

func (d *Dict) items() []Value {
	items := make([]Value, len(d.keys))
	for i, key := range d.keys {
		items[i] = newTuple(key, d.values[i])
	}
	return items
}

// undefined is the value of a name, an attribute or an item that does not exist. It can be printed,
// iterated over and tested for truth; anything else is an error.
type undefined struct{ kind, hint string }

func (u *undefined) fail() { fail(u.kind, "%s", u.hint) }

func undefinedf(format string, args ...any) *undefined {
	return &undefined{"UndefinedError", fmt.Sprintf(format, args...)}
}

// namespace is an object whose attributes {% set %} can set.
type namespace struct{ of *Dict }

// generator can be iterated over once.
type generator struct {
	items []Value
	kind  string
}

// function is a callable value other than a macro.
type function struct {
	name string
	call func(r *renderer, a *callArgs) Value
}

// hash returns a comparable value that is equal for keys that are equal in Python.
func hash(v Value, depth int) any {
	switch v := v.(type) {
	case nil:
		return struct{}{}
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case int64, string:
		return v
	case markup:
		return string(v)
	case float64:
		if whole := int64(v); float64(whole) == v && math.Abs(v) < 1<<62 {
			return whole
		}
		return v
	case *undefined:
		return undefined{}
	case *List:
		if (v.kind == kindTuple || v.kind == kindRange) && depth < 20 {
			var b strings.Builder
			b.WriteString(string(v.kind) + " ")
			for _, item := range v.items {
				h := hash(item, depth+1)
				s := fmt.Sprintf("%v", h)
				fmt.Fprintf(&b, "%T %d %s,", h, len(s), s)
			}
			return [1]string{b.String()}
		}
		fail("TypeError", "unhashable type: '%s'", typeName(v))
	case *Dict:
		fail("TypeError", "unhashable type: 'dict'")
	}
	return v
}

// typeName returns Python's name of the type of v.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *List:
		return string(v.kind)
	case *Dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *generator:
		return v.kind
	case *loop:
		return "LoopContext"
	case *macro:
		return "Macro"
	default:
		return "function"
	}
}

// describe is object_type_repr of jinja2.
func describe(v Value) string {
	switch v.(type) {
	case nil:
		return "None"
	case *namespace, *loop, *macro, markup:
		return map[string]string{"Namespace": "jinja2.utils.", "LoopContext": "jinja2.runtime.", "Macro": "jinja2.runtime.",
			"Markup": "markupsafe."}[typeName(v)] + typeName(v) + " object"
	}
	return typeName(v) + " object"
}

// truth is Python's bool.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *List:
		return len(v.items) > 0
	case *Dict:
		return len(v.keys) > 0
	default:
		return true
	}
}

// asString returns v if it is a string.
func asString(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// asFloat returns v as a float64 if it is a number.
func asFloat(v Value) (float64, bool) {
	switch v := v.(type) {
	case bool, int64:
		n, _ := asInt(v)
		return float64(n), true
	case float64:
		return v, true
	}
	return 0, false
}

// asInt returns v as an int64 if it is an integer or a bool, which is an integer in Python.
func asInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	}
	return 0, false
}

// length is Python's len.
func (b *budget) length(v Value) int {
	if s, ok := asString(v); ok {
		b.spend(len(s))
		return utf8.RuneCountInString(s)
	}
	switch v := v.(type) {
	case *List:
		return len(v.items)
	case *Dict:
		return len(v.keys)
	case *undefined:
		return 0
	case *loop:
		return len(v.items)
	}
	fail("TypeError", "object of type '%s' has no len()", typeName(v))
	return 0
}

// iterate returns the items of an iterable value.
func (b *budget) iterate(v Value) []Value {
	if s, ok := asString(v); ok {
		b.alloc(32 * len(s))
		items := make([]Value, 0, len(s))
		for _, c := range s {
			items = append(items, string(c))
		}
		return items
	}
	switch v := v.(type) {
	case *List:
		return v.items
	case *Dict:
		return v.keys
	case *undefined:
		return nil
	case *generator:
		items := v.items
		v.items = nil
		return items
	}
	fail("TypeError", "'%s' object is not iterable", typeName(v))
	return nil
}

// equal is Python's ==.
func (b *budget) equal(left, right Value, depth int) bool {
	b.compared(depth)
	if s, ok := asString(left); ok {
		other, ok := asString(right)
		b.spend(min(len(s), len(other)))
		return ok && s == other
	}
	if x, ok := asFloat(left); ok {
		if i, ok := asInt(left); ok {
			if j, ok := asInt(right); ok {
				return i == j
			}
		}
		y, ok := asFloat(right)
		return ok && x == y
	}
	switch left := left.(type) {
	case nil:
		return right == nil
	case *undefined:
		_, ok := right.(*undefined)
		return ok
	case *List:
		right, ok := right.(*List)
		return ok && b.equalLists(left, right, depth+1)
	case *Dict:
		right, ok := right.(*Dict)
		return ok && b.equalDicts(left, right, depth+1)
	}
	return left == right
}

// compared charges a comparison, and fails if values are nested too deep.
func (b *budget) compared(depth int) {
	b.spend(stepCost)
	if depth > maxData {
		fail("RecursionError", "values that are compared nest more than %d deep", maxData)
	}
}

func (b *budget) equalLists(left, right *List, depth int) bool {
	if left.kind != right.kind || len(left.items) != len(right.items) {
		return false
	}
	if left.kind == kindValues {
		return left == right
	}
	for i := range left.items {
		if !b.equal(left.items[i], right.items[i], depth) {
			return false
		}
	}
	return true
}

func (b *budget) equalDicts(left, right *Dict, depth int) bool {
	if len(left.keys) != len(right.keys) {
		return false
	}
	for i, key := range left.keys {
		other, ok := right.Get(key)
		if !ok || !b.equal(left.values[i], other, depth) {
			return false
		}
	}
	return true
}

// less is Python's <; op is the operator to name in an error.
func (b *budget) less(left, right Value, op string, depth int) bool {
	b.compared(depth)
	for _, v := range []Value{left, right} {
		if u, ok := v.(*undefined); ok {
			u.fail()
		}
	}
	if s, ok := asString(left); ok {
		if other, ok := asString(right); ok {
			b.spend(min(len(s), len(other)))
			return s < other // in UTF-8 the order of bytes is that of code points
		}
	}
	if i, ok := asInt(left); ok {
		if j, ok := asInt(right); ok {
			return i < j
		}
	}
	if x, ok := asFloat(left); ok {
		if y, ok := asFloat(right); ok {
			return x < y
		}
	}
	if x, ok := left.(*List); ok && (x.kind == kindList || x.kind == kindTuple) {
		if y, ok := right.(*List); ok && y.kind == x.kind {
			for i := range min(len(x.items), len(y.items)) {
				if !b.equal(x.items[i], y.items[i], depth+1) {
					return b.less(x.items[i], y.items[i], op, depth+1)
				}
			}
			return len(x.items) < len(y.items)
		}
	}
	fail("TypeError", "'%s' not supported between instances of '%s' and '%s'", op, typeName(left), typeName(right))
	return false
}

// contains is Python's in.
func (b *budget) contains(container, v Value) bool {
	if s, ok := asString(container); ok {
		part, ok := asString(v)
		if !ok {
			if u, ok := v.(*undefined); ok {
				u.fail()
			}
			fail("TypeError", "'in <string>' requires string as left operand, not %s", typeName(v))
		}
		b.spend(len(s))
		return strings.Contains(s, part)
	}
	switch c := container.(type) {
	case *Dict:
		_, ok := c.Get(v)
		return ok
	case *List, *undefined, *generator:
		for _, item := range b.iterate(c) {
			if b.equal(item, v, 0) {
				return true
			}
		}
		return false
	}
	fail("TypeError", "argument of type '%s' is not iterable", typeName(container))
	return false
}
