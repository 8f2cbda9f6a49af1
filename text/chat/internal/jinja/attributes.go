package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Attributes of Python's types that are not supported here, and methods that mutate their object,
// which jinja2's ImmutableSandboxedEnvironment refuses.
var (
	otherAttributes = map[string]string{
		"str": "encode expandtabs format_map isascii isdecimal isidentifier isnumeric isprintable maketrans translate",
		"int": "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real " +
			"to_bytes",
		"float": "as_integer_ratio conjugate fromhex hex imag is_integer real",
		"dict":  "fromkeys",
		"range": "start step stop",
	}
	mutating = map[string]string{
		"list": "append clear extend insert pop remove reverse sort",
		"dict": "clear pop popitem setdefault update",
	}
)

// has reports whether name is one of the space-separated names.
func has(names, name string) bool { return slices.Contains(strings.Fields(names), name) }

// attribute returns of.name: an attribute, or otherwise an item.
func (r *renderer) attribute(of Value, name string) Value {
	if u, ok := of.(*undefined); ok {
		u.fail()
	}
	if v, ok := r.own(of, name); ok {
		return v
	}
	if d, ok := of.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v
		}
	}
	return undefinedf("%s has no attribute '%s'", quoted(describe(of)), name)
}

// item returns of[index]: an item, or otherwise an attribute.
func (r *renderer) item(of, index Value) Value {
	if u, ok := of.(*undefined); ok {
		u.fail()
	}
	switch v := of.(type) {
	case *Dict:
		if found, ok := v.Get(hashable(index)); ok {
			return found
		}
	case *List:
		if i, ok := asInt(index); ok && v.indexed() {
			if i, ok := within(i, len(v.items)); ok {
				return v.items[i]
			}
		}
	case string, markup:
		s, _ := asString(v)
		if i, ok := asInt(index); ok {
			if c, ok := runeAt(s, i); ok {
				return c
			}
		}
	}
	if name, ok := asString(index); ok {
		if v, ok := r.own(of, name); ok {
			return v
		}
		return undefinedf("%s has no attribute %s", quoted(describe(of)), r.repr(index))
	}
	return undefinedf("%s has no element %s", describe(of), r.repr(index))
}

func quoted(s string) string { return "'" + s + "'" }

// hashable replaces values that cannot be a key of a dictionary, so that looking them up finds
// nothing instead of failing.
func hashable(v Value) Value {
	switch l := v.(type) {
	case *Dict:
		return absent{}
	case *List:
		if l.kind != kindTuple && l.kind != kindRange {
			return absent{}
		}
	}
	return v
}

func (l *List) indexed() bool {
	return l.kind == kindList || l.kind == kindTuple || l.kind == kindRange
}

// within resolves a negative index, which counts from the end, and reports whether the index is in
// range.
func within(i int64, n int) (int, bool) {
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

func runeAt(s string, i int64) (string, bool) {
	if i < 0 {
		i += int64(utf8.RuneCountInString(s))
	}
	for at, c := range s {
		if i == 0 {
			return s[at : at+utf8.RuneLen(c)], true
		}
		if i--; i < 0 {
			break
		}
	}
	return "", false
}

// own returns an attribute that the Python type of the value has.
func (r *renderer) own(of Value, name string) (Value, bool) {
	kind := typeName(of)
	unsafe := &undefined{"SecurityError", "access to attribute '" + name + "' of '" + kind + "' object is unsafe."}
	switch v := of.(type) {
	case *namespace:
		return v.of.Get(name)
	case *loop:
		if found, ok := v.attribute(name); ok {
			return found, true
		}
	case *macro:
		switch name {
		case "name":
			return v.name, true
		case "arguments", "catch_kwargs", "catch_varargs", "caller":
			fail("NotSupported", "the attribute %q of a macro", name)
		}
	}
	if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
		return unsafe, true
	}
	if has(mutating[kind], name) {
		return unsafe, true
	}
	table := kind
	if kind == "Markup" {
		table = "str"
	}
	if m, ok := methods[table][name]; ok {
		if kind == "Markup" {
			fail("NotSupported", "the method %q of what is marked as safe", name)
		}
		return &function{name, func(r *renderer, a *callArgs) Value {
			r.spend(cost(of))
			return m(r, of, a)
		}}, true
	}
	if has(otherAttributes[table], name) {
		fail("NotSupported", "the attribute %q of a %s", name, kind)
	}
	return nil, false
}

// attribute returns an attribute of the variable loop.
func (l *loop) attribute(name string) (Value, bool) {
	n, i := int64(len(l.items)), int64(l.index)
	switch name {
	case "index":
		return i + 1, true
	case "index0":
		return i, true
	case "revindex":
		return n - i, true
	case "revindex0":
		return n - i - 1, true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return n, true
	case "depth":
		return int64(1), true
	case "depth0":
		return int64(0), true
	case "previtem":
		if i == 0 {
			return undefinedf("there is no previous item"), true
		}
		return l.items[i-1], true
	case "nextitem":
		if i == n-1 {
			return undefinedf("there is no next item"), true
		}
		return l.items[i+1], true
	case "cycle":
		return &function{name, func(_ *renderer, a *callArgs) Value {
			if len(a.positional) == 0 {
				fail("TypeError", "no items for cycling given")
			}
			return a.positional[l.index%len(a.positional)]
		}}, true
	case "changed":
		return &function{name, func(r *renderer, a *callArgs) Value {
			now := newTuple(a.positional...)
			same := l.changed != nil && r.equal(l.changed, now, 0)
			l.changed = now
			return !same
		}}, true
	}
	return nil, false
}

// slice returns of[start:stop:step].
func (r *renderer) slice(of, start, stop, step Value) Value {
	bounds := func(v Value) *int64 {
		if v == nil {
			return nil
		}
		i, ok := asInt(v)
		if !ok {
			fail("TypeError", "slice indices must be integers or None")
		}
		return &i
	}
	first, last, by := bounds(start), bounds(stop), bounds(step)
	if by != nil && *by == 0 {
		fail("ValueError", "slice step cannot be zero")
	}
	switch v := of.(type) {
	case *undefined:
		v.fail()
	case string, markup:
		s, _ := asString(v)
		r.alloc(4 * len(s))
		cut := string(sliceOf([]rune(s), first, last, by))
		if _, ok := v.(markup); ok {
			return markup(cut)
		}
		return cut
	case *List:
		if v.indexed() {
			kind := v.kind
			if kind == kindRange {
				fail("NotSupported", "a slice of a range")
			}
			return &List{kind: kind, items: sliceOf(v.items, first, last, by)}
		}
	}
	fail("TypeError", "'%s' object is not subscriptable with a slice", typeName(of))
	return nil
}

func sliceOf[T any](items []T, first, last, by *int64) []T {
	n := int64(len(items))
	step := int64(1)
	if by != nil {
		step = *by
	}
	low, high := int64(0), n // the range to which bounds are clamped
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(v *int64, fallback int64) int64 {
		if v == nil {
			return fallback
		}
		i := *v
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	start, stop := bound(first, low), bound(last, high)
	if step < 0 {
		start, stop = bound(first, high), bound(last, low)
	}
	out := []T{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, items[i])
		if step > n || step < -n {
			break
		}
	}
	return out
}
