package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// This file has the filters for sequences.

// ends returns the first or last item, which of selects, or undefined if there are none.
func ends(items []Value, which string, of func([]Value) Value) Value {
	if len(items) == 0 {
		return undefinedf("No %s item, sequence was empty.", which)
	}
	return of(items)
}

// reversible refuses generators, which Python cannot reverse.
func (r *renderer) reversible(v Value) {
	if g, ok := v.(*generator); ok {
		fail("TypeError", "'%s' object is not reversible", g.kind)
	}
}

func reverse(r *renderer, v Value, a *callArgs) Value {
	a.to("reverse()")
	if s, ok := asString(v); ok {
		r.alloc(4 * len(s))
		runes := []rune(s)
		slices.Reverse(runes)
		return safeLike(v, string(runes))
	}
	items := slices.Clone(r.iterate(v))
	r.alloc(16 * len(items))
	slices.Reverse(items)
	if _, ok := v.(*generator); ok {
		return NewList(items...)
	}
	return &generator{items: items, kind: "list_reverseiterator"}
}

func join(r *renderer, v Value, a *callArgs) Value {
	p := a.to("join()", "d", "attribute")
	items := r.iterate(v)
	if by := or(p[1], nil); by != nil {
		items = r.mapped(items, r.getter(by))
	}
	return r.join(r.str(or(p[0], "")), items)
}

// mapped returns the results of f for all items.
func (r *renderer) mapped(items []Value, f func(Value) Value) []Value {
	r.alloc(16 * len(items))
	out := make([]Value, len(items))
	for i, item := range items {
		r.spend(stepCost)
		out[i] = f(item)
	}
	return out
}

// getter returns a function that looks up an attribute as filters do: the name may have several
// parts separated by points, and parts that are numbers are indices. None means the value itself.
func (r *renderer) getter(attribute Value) func(Value) Value { return r.getterOr(attribute, nil) }

// getterOr is getter with a default for parts that do not exist, unless the default is None.
func (r *renderer) getterOr(attribute, otherwise Value) func(Value) Value {
	if attribute == nil {
		return func(v Value) Value { return v }
	}
	parts := []Value{attribute}
	if s, ok := asString(attribute); ok {
		parts = nil
		for part := range strings.SplitSeq(s, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && isDigit(part[0]) {
				parts = append(parts, n)
			} else {
				parts = append(parts, part)
			}
		}
	}
	return func(v Value) Value {
		for _, part := range parts {
			v = r.item(v, part)
			if _, ok := v.(*undefined); ok && otherwise != nil {
				v = otherwise
			}
		}
		return v
	}
}

// ignoringCase puts strings in lower case unless caseSensitive is true.
func ignoringCase(get func(Value) Value, caseSensitive Value) func(Value) Value {
	if truth(or(caseSensitive, false)) {
		return get
	}
	return func(v Value) Value {
		v = get(v)
		if s, ok := asString(v); ok {
			return lower(s)
		}
		return v
	}
}

// sort sorts order, the numbers from 0 to len(order)-1, stably by their keys.
func (b *budget) sort(order []int, key func(int) Value, reverse bool) {
	b.alloc(64 * len(order))
	keys := make([]Value, len(order))
	for i := range order {
		keys[i] = key(i)
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if reverse { // equal items keep their order
			i, j = j, i
		}
		if b.less(keys[i], keys[j], "<", 0) {
			return -1
		}
		if b.less(keys[j], keys[i], "<", 0) {
			return 1
		}
		return 0
	})
}

// sorted returns the items in the order of their keys.
func (r *renderer) sorted(items []Value, key func(Value) Value, reverse bool) []Value {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	r.sort(order, func(i int) Value { return key(items[i]) }, reverse)
	out := make([]Value, len(items))
	for i, from := range order {
		out[i] = items[from]
	}
	return out
}

func sortFilter(r *renderer, v Value, a *callArgs) Value {
	p := a.to("sort()", "reverse", "case_sensitive", "attribute")
	by := or(p[2], nil)
	get := ignoringCase(r.getter(by), p[1])
	if s, ok := asString(by); ok && strings.Contains(s, ",") {
		var getters []func(Value) Value
		for part := range strings.SplitSeq(s, ",") {
			getters = append(getters, ignoringCase(r.getter(part), p[1]))
		}
		get = func(v Value) Value {
			keys := newTuple()
			for _, get := range getters {
				keys.items = append(keys.items, get(v))
			}
			return keys
		}
	}
	return NewList(r.sorted(r.iterate(v), get, truth(or(p[0], false)))...)
}

func dictSort(r *renderer, v Value, a *callArgs) Value {
	p := a.to("dictsort()", "case_sensitive", "by", "reverse")
	d, ok := v.(*Dict)
	if !ok {
		refuse("dictsort()", v, "a dict")
	}
	at := int64(0)
	switch needString("dictsort()", or(p[1], "key")) {
	case "key":
	case "value":
		at = 1
	default:
		fail("FilterArgumentError", `You can only sort by either "key" or "value"`)
	}
	r.alloc(64 * len(d.keys))
	return NewList(r.sorted(d.items(), ignoringCase(r.getter(at), p[0]), truth(or(p[2], false)))...)
}

func unique(r *renderer, v Value, a *callArgs) Value {
	p := a.to("unique()", "case_sensitive", "attribute")
	get := ignoringCase(r.getter(or(p[1], nil)), p[0])
	seen := NewDict()
	return r.kept(v, func(item Value) bool {
		key := get(item)
		if _, ok := seen.Get(key); ok {
			return false
		}
		seen.Set(key, nil)
		return true
	})
}

// kept returns the items for which keep returns true.
func (r *renderer) kept(v Value, keep func(Value) bool) Value {
	g := &generator{kind: "generator"}
	for _, item := range r.iterate(v) {
		r.alloc(16)
		r.spend(stepCost)
		if keep(item) {
			g.items = append(g.items, item)
		}
	}
	return g
}

func extreme(name string, largest bool) func(*renderer, Value, *callArgs) Value {
	return func(r *renderer, v Value, a *callArgs) Value {
		p := a.to(name+"()", "case_sensitive", "attribute")
		get := ignoringCase(r.getter(or(p[1], nil)), p[0])
		items := r.iterate(v)
		if len(items) == 0 {
			return undefinedf("No aggregated item, sequence was empty.")
		}
		best := items[0]
		for _, item := range items[1:] {
			low, high := get(item), get(best)
			op := "<"
			if largest {
				low, high, op = high, low, ">"
			}
			if r.less(low, high, op, 0) {
				best = item
			}
		}
		return best
	}
}

func sum(r *renderer, v Value, a *callArgs) Value {
	p := a.to("sum()", "attribute", "start")
	get := r.getter(or(p[0], nil))
	total := or(p[1], int64(0))
	if _, ok := asString(total); ok {
		fail("TypeError", "sum() can't sum strings [use ''.join(seq) instead]")
	}
	for _, item := range r.iterate(v) {
		total = r.made(r.binary("+", total, get(item)))
	}
	return total
}

func batch(r *renderer, v Value, a *callArgs) Value {
	p := a.to("batch()", "linecount", "fill_with")
	n := needInt("batch()", p[0])
	if n < 1 || n > maxRange {
		fail("ValueError", "batch() of %d items; want 1 to %d", n, maxRange)
	}
	items, fill := r.iterate(v), or(p[1], nil)
	r.alloc(32*len(items) + 16*n)
	g := &generator{kind: "generator"}
	for part := range slices.Chunk(items, n) {
		part = slices.Clone(part)
		for fill != nil && len(part) < n {
			part = append(part, fill)
		}
		g.items = append(g.items, NewList(part...))
	}
	return g
}

func sliceFilter(r *renderer, v Value, a *callArgs) Value {
	p := a.to("slice()", "slices", "fill_with")
	n := needInt("slice()", p[0])
	if n < 1 || n > maxRange {
		fail("ValueError", "slice() into %d; want 1 to %d", n, maxRange)
	}
	items, fill := r.iterate(v), or(p[1], nil)
	r.alloc(32*len(items) + 64*n)
	g := &generator{kind: "generator"}
	each, more, at := len(items)/n, len(items)%n, 0
	for i := range n {
		end := at + each
		if i < more {
			end++
		}
		part := slices.Clone(items[at:end])
		if fill != nil && i >= more {
			part = append(part, fill)
		}
		g.items, at = append(g.items, NewList(part...)), end
	}
	return g
}

// mapFilter applies a filter to each item, or looks up an attribute.
func mapFilter(r *renderer, v Value, a *callArgs) Value {
	var f func(Value) Value
	if len(a.positional) == 0 && slices.Contains(a.names, "attribute") {
		p := a.to("map()", "attribute", "default")
		f = r.getterOr(p[0], or(p[1], nil))
	} else {
		if len(a.positional) == 0 {
			fail("FilterArgumentError", "map requires a filter argument")
		}
		name := needString("map()", a.positional[0])
		rest := &callArgs{a.positional[1:], a.names, a.values}
		f = func(item Value) Value {
			r.enter() // the filter may be map itself
			defer r.leave()
			return r.made(r.filter(name, item, rest))
		}
	}
	if !truth(v) {
		return &generator{kind: "generator"}
	}
	return &generator{items: r.mapped(r.iterate(v), f), kind: "generator"}
}

// selector makes a filter that keeps or drops the items that pass a test, or whose attribute does.
func selector(ofAttribute, keep bool) func(*renderer, Value, *callArgs) Value {
	return func(r *renderer, v Value, a *callArgs) Value {
		if !truth(v) {
			return &generator{kind: "generator"}
		}
		rest := a.positional
		get := r.getter(nil)
		if ofAttribute {
			if len(rest) == 0 {
				fail("FilterArgumentError", "Missing parameter for attribute name")
			}
			get, rest = r.getter(rest[0]), rest[1:]
		}
		passes := truth
		if len(rest) > 0 {
			name := needString("select()", rest[0])
			other := &callArgs{rest[1:], a.names, a.values}
			passes = func(v Value) bool { return r.test(name, v, other) }
		}
		return r.kept(v, func(item Value) bool { return passes(get(item)) == keep })
	}
}
