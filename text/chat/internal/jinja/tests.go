package jinja

import "math"

// tests holds all tests of jinja2.
var tests map[string]func(r *renderer, v Value, a *callArgs) bool

// only makes a test without arguments.
func only(name string, is func(r *renderer, v Value) bool) func(*renderer, Value, *callArgs) bool {
	return func(r *renderer, v Value, a *callArgs) bool {
		a.to("the test " + name)
		return is(r, v)
	}
}

// against makes a test with one argument.
func against(name string, is func(r *renderer, v, other Value) bool) func(*renderer, Value, *callArgs) bool {
	return func(r *renderer, v Value, a *callArgs) bool {
		other := a.to("the test "+name, "other")[0]
		if _, ok := other.(absent); ok {
			fail("TypeError", "the test %s wants another value", name)
		}
		return is(r, v, other)
	}
}

func isKind[T any](_ *renderer, v Value) bool {
	_, ok := v.(T)
	return ok
}

func init() { // not in the declaration: that would be an initialization cycle
	tests = map[string]func(*renderer, Value, *callArgs) bool{
		"defined": only("defined", func(r *renderer, v Value) bool { return !isKind[*undefined](r, v) }),
		"mapping": only("mapping", isKind[*Dict]), "undefined": only("undefined", isKind[*undefined]),
		"boolean": only("boolean", isKind[bool]), "float": only("float", isKind[float64]),
		"integer": only("integer", isKind[int64]),
		"none":    only("none", func(_ *renderer, v Value) bool { return v == nil }),
		"true":    only("true", func(_ *renderer, v Value) bool { return v == true }),
		"false":   only("false", func(_ *renderer, v Value) bool { return v == false }),
		"string": only("string", func(_ *renderer, v Value) bool {
			_, ok := asString(v)
			return ok
		}),
		"number": only("number", func(_ *renderer, v Value) bool {
			_, ok := asFloat(v)
			return ok
		}),
		"escaped": only("escaped", isKind[markup]),
		"lower":   only("lower", func(r *renderer, v Value) bool { return allCased(r.str(v), isLower) }),
		"upper":   only("upper", func(r *renderer, v Value) bool { return allCased(r.str(v), isUpper) }),
		"iterable": only("iterable", func(_ *renderer, v Value) bool {
			switch v.(type) {
			case string, markup, *List, *Dict, *undefined, *generator, *loop:
				return true
			}
			return false
		}),
		"sequence": only("sequence", func(_ *renderer, v Value) bool {
			switch v := v.(type) {
			case string, markup, *Dict, *undefined:
				return true
			case *List:
				return v.indexed()
			}
			return false
		}),
		"callable": only("callable", func(_ *renderer, v Value) bool {
			switch v.(type) {
			case *function, *macro, *loop, *undefined:
				return true
			}
			return false
		}),
		"odd":  only("odd", func(r *renderer, v Value) bool { return r.equal(r.binary("%", v, int64(2)), int64(1), 0) }),
		"even": only("even", func(r *renderer, v Value) bool { return r.equal(r.binary("%", v, int64(2)), int64(0), 0) }),
		"divisibleby": against("divisibleby", func(r *renderer, v, by Value) bool {
			return r.equal(r.binary("%", v, by), int64(0), 0)
		}),
		"sameas": against("sameas", same),
		"in":     against("in", func(r *renderer, v, in Value) bool { return r.contains(in, v) }),
		"filter": only("filter", func(_ *renderer, v Value) bool {
			s, ok := asString(v)
			return ok && (filters[s] != nil || has(otherFilters, s))
		}),
		"test": only("test", func(_ *renderer, v Value) bool {
			s, ok := asString(v)
			return ok && tests[s] != nil
		}),
	}
	for op, names := range map[string][]string{"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"},
		">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"}, "<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"}} {
		for _, name := range names {
			tests[name] = against(name, func(r *renderer, v, other Value) bool { return r.compareTwo(op, v, other) })
		}
	}
}

// same is Python's is, for values for which the result does not depend on which objects Python
// shares.
func same(r *renderer, v, other Value) bool {
	if typeName(v) != typeName(other) {
		return false
	}
	switch v := v.(type) {
	case nil, bool:
		return v == other
	case int64:
		if other == v && (v < -5 || v > 256) {
			fail("NotSupported", "the test sameas of integers")
		}
		return v == other
	case float64, string, markup, *undefined:
		if r.equal(v, other, 0) || v != v && math.IsNaN(v.(float64)) { //nolint:staticcheck // NaN differs from itself
			fail("NotSupported", "the test sameas of a %s", typeName(v))
		}
		return false
	}
	return v == other
}

func (r *renderer) test(name string, v Value, a *callArgs) bool {
	t, ok := tests[name]
	if !ok {
		fail("TemplateAssertionError", "No test named '%s'.", name)
	}
	return t(r, v, a)
}
