package jinja

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var directive = regexp.MustCompile(`^%(?:\(([^)]*)\))?([-+ 0#]*)(\d*)(?:\.(\d+))?([a-zA-Z%])`)

// format is Python's s % v.
func (r *renderer) format(s string, v Value) Value {
	items := []Value{v}
	mapping, isMapping := v.(*Dict)
	if t, ok := v.(*List); ok && t.kind == kindTuple {
		items = t.items
	}
	w := &writer{budget: &r.budget}
	used := 0
	for {
		at := strings.IndexByte(s, '%')
		if at < 0 {
			w.write(s)
			break
		}
		w.write(s[:at])
		s = s[at:]
		m := directive.FindStringSubmatch(s)
		if m == nil {
			fail("ValueError", "incomplete format, or one that is not known: %q", s[:min(10, len(s))])
		}
		if s = s[len(m[0]):]; m[5] == "%" {
			w.write("%")
			continue
		}
		var item Value
		switch {
		case strings.Contains(m[0], "("):
			if !isMapping {
				fail("TypeError", "format requires a mapping")
			}
			found, ok := mapping.Get(m[1])
			if !ok {
				fail("KeyError", "'%s'", m[1])
			}
			item = found
			used = len(items)
		case used == len(items):
			fail("TypeError", "not enough arguments for format string")
		default:
			item = items[used]
			used++
		}
		w.write(r.directive(m, item))
	}
	switch v := v.(type) { // values that could be a mapping need not be used
	case *undefined, *Dict:
		used = len(items)
	case *List:
		if v.kind != kindTuple {
			used = len(items)
		}
	}
	if used < len(items) {
		fail("TypeError", "not all arguments converted during string formatting")
	}
	return w.String()
}

// directive formats one conversion such as %s, %d or %f.
func (r *renderer) directive(m []string, v Value) string {
	flags, width, precision, verb := m[2], m[3], m[4], m[5]
	for _, n := range []string{width, precision} {
		if len(n) > 3 {
			fail("NotSupported", "%%%s%s: a width over 999", flags, verb)
		}
	}
	if u, ok := v.(*undefined); ok && verb != "s" && verb != "r" {
		u.fail()
	}
	var s string
	switch verb {
	case "s", "r":
		if s = r.str(v); verb == "r" {
			s = r.repr(v)
		}
		if precision != "" {
			n, _ := strconv.Atoi(precision)
			s = string([]rune(s)[:min(n, utf8.RuneCountInString(s))])
		}
		n, _ := strconv.Atoi(width)
		if strings.Contains(flags, "-") {
			n = -n
		}
		return fmt.Sprintf("%*s", n, s)
	case "d", "i", "u", "x", "X", "o":
		f, ok := asFloat(v)
		if !ok || math.Abs(f) >= 1<<63 {
			fail("TypeError", "%%%s format: a real number is required, not %s", verb, typeName(v))
		}
		i, ok := asInt(v)
		if !ok {
			i = int64(f)
		}
		if verb == "i" || verb == "u" {
			verb = "d"
		}
		if strings.Contains(flags, "#") || precision != "" {
			fail("NotSupported", "the format %q", m[0])
		}
		return fmt.Sprintf("%"+flags+width+verb, i)
	case "f", "F", "e", "E":
		f, ok := asFloat(v)
		if !ok {
			fail("TypeError", "must be real number, not %s", typeName(v))
		}
		if precision == "" {
			precision = "6"
		}
		if strings.Contains(flags, "#") || math.IsInf(f, 0) || math.IsNaN(f) {
			fail("NotSupported", "the format %q of %g", m[0], f)
		}
		return fmt.Sprintf("%"+flags+width+"."+precision+verb, f)
	}
	fail("NotSupported", "the format %q", m[0])
	return ""
}

var field = regexp.MustCompile(`^\{([^{}]*)\}`)

// formatMethod is Python's str.format for fields that are empty, a number or a name.
func formatMethod(r *renderer, of Value, a *callArgs) Value {
	s := needString("format()", of)
	w := &writer{budget: &r.budget}
	next, numbered := 0, false
	for {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			w.write(s)
			return w.String()
		}
		w.write(s[:at])
		s = s[at:]
		if strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "}}") {
			w.write(s[:1])
			s = s[2:]
			continue
		}
		m := field.FindStringSubmatch(s)
		if m == nil {
			fail("ValueError", "Single '%c' encountered in format string", s[0])
		}
		s = s[len(m[0]):]
		if strings.ContainsAny(m[1], ".[:!") {
			fail("NotSupported", "the field %q of str.format", m[0])
		}
		name := m[1]
		if _, err := strconv.Atoi(name); err == nil {
			numbered = true
		} else if name == "" {
			name = strconv.Itoa(next)
			next++
		}
		if numbered && next > 0 {
			fail("ValueError", "cannot switch between manual field specification and automatic field numbering")
		}
		w.write(r.str(a.field(name)))
	}
}

// field returns the argument for a replacement field of str.format.
func (b *callArgs) field(name string) Value {
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(b.positional) {
			fail("IndexError", "Replacement index %d out of range for positional args tuple", i)
		}
		return b.positional[i]
	}
	for i, n := range b.names {
		if n == name {
			return b.values[i]
		}
	}
	fail("KeyError", "'%s'", name)
	return nil
}
