package jinja

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// filters holds the supported filters of jinja2, with transformers' tojson.
var filters map[string]func(r *renderer, v Value, a *callArgs) Value

// otherFilters lists the filters of jinja2 that are not supported.
const otherFilters = "filesizeformat groupby pprint random striptags truncate urlize wordcount wordwrap xmlattr"

func (r *renderer) filter(name string, v Value, a *callArgs) Value {
	f, ok := filters[name]
	if !ok {
		if has(otherFilters, name) {
			fail("NotSupported", "the filter %q", name)
		}
		fail("TemplateAssertionError", "No filter named '%s'.", name)
	}
	return f(r, v, a)
}

// softFilter makes a filter from f whose result is marked as safe if the input is (jinja2's
// soft_str).
func softFilter(f func(string) string) func(*renderer, Value, *callArgs) Value {
	return func(r *renderer, v Value, a *callArgs) Value {
		return safeLike(v, needString("", ofString(func(s string) Value { return f(s) })(r, v, a)))
	}
}

// ofString makes a filter without arguments from f, which gets the value as a string.
func ofString(f func(string) Value) func(*renderer, Value, *callArgs) Value {
	return func(r *renderer, v Value, a *callArgs) Value {
		a.to("the filter")
		s := r.str(v)
		r.alloc(3 * len(s))
		return f(s)
	}
}

// safeLike marks s as safe if v is.
func safeLike(v Value, s string) Value {
	if _, ok := v.(markup); ok {
		return markup(s)
	}
	return s
}

func init() { // not in the declaration: that would be an initialization cycle
	filters = map[string]func(*renderer, Value, *callArgs) Value{
		"upper": softFilter(upper), "lower": softFilter(lower), "capitalize": softFilter(capitalize),
		"title":     ofString(func(s string) Value { return titleFilter(s) }),
		"safe":      ofString(func(s string) Value { return markup(s) }),
		"urlencode": urlencode,
		"string": func(r *renderer, v Value, a *callArgs) Value {
			a.to("string()")
			return safeLike(v, r.str(v))
		},
		"escape": escapeFilter, "e": escapeFilter,
		"forceescape": ofString(func(s string) Value { return markup(escape(s)) }),
		"trim": func(r *renderer, v Value, a *callArgs) Value {
			chars := or(a.to("trim()", "chars")[0], nil)
			s := r.str(v)
			r.spend(len(s) * max(1, size(chars)/8))
			return safeLike(v, strip(s, chars, true, true))
		},
		"replace": func(r *renderer, v Value, a *callArgs) Value {
			p := a.to("replace()", "old", "new", "count")
			count := or(p[2], nil)
			if count == nil {
				count = int64(-1)
			}
			return r.replace(r.str(v), r.str(p[0]), r.str(p[1]), needInt("replace()", count))
		},
		"format": func(r *renderer, v Value, a *callArgs) Value {
			if len(a.names) == 0 {
				return r.format(r.str(v), newTuple(a.positional...))
			}
			if len(a.positional) > 0 {
				fail("FilterArgumentError", "can't handle positional and keyword arguments at the same time")
			}
			return r.format(r.str(v), r.dictOf("format()", &callArgs{names: a.names, values: a.values}))
		},
		"center": func(r *renderer, v Value, a *callArgs) Value {
			width := needInt("center()", or(a.to("center()", "width")[0], int64(80)))
			return r.pad(r.str(v), width, " ", func(n int) int { return centered(n, width) })
		},
		"indent": indent, "tojson": tojson,
		"length": length, "count": length,
		"default": defaultTo, "d": defaultTo,
		"list": func(r *renderer, v Value, a *callArgs) Value {
			a.to("list()")
			return NewList(slices.Clone(r.iterate(v))...)
		},
		"items": func(r *renderer, v Value, a *callArgs) Value {
			a.to("items()")
			if _, ok := v.(*undefined); ok {
				return &generator{kind: "generator"}
			}
			d, ok := v.(*Dict)
			if !ok {
				fail("TypeError", "Can only get item pairs from a mapping.")
			}
			r.alloc(64 * len(d.keys))
			return &generator{items: d.items(), kind: "generator"}
		},
		"first": func(r *renderer, v Value, a *callArgs) Value {
			a.to("first()")
			return ends(r.iterate(v), "first", func(items []Value) Value { return items[0] })
		},
		"last": func(r *renderer, v Value, a *callArgs) Value {
			a.to("last()")
			r.reversible(v)
			return ends(r.iterate(v), "last", func(items []Value) Value { return items[len(items)-1] })
		},
		"reverse": reverse, "join": join, "sort": sortFilter, "dictsort": dictSort, "unique": unique,
		"min": extreme("min", false), "max": extreme("max", true), "sum": sum, "batch": batch, "slice": sliceFilter,
		"map":    mapFilter,
		"select": selector(false, true), "reject": selector(false, false),
		"selectattr": selector(true, true), "rejectattr": selector(true, false),
		"attr": func(r *renderer, v Value, a *callArgs) Value {
			name := needString("attr()", a.to("attr()", "name")[0])
			if u, ok := v.(*undefined); ok {
				u.fail()
			}
			if found, ok := r.own(v, name); ok {
				return found
			}
			return undefinedf("%s has no attribute '%s'", quoted(describe(v)), name)
		},
		"abs": func(r *renderer, v Value, a *callArgs) Value {
			a.to("abs()")
			if f, ok := asFloat(v); !ok || f >= 0 {
				return r.unary("+", v)
			}
			return r.unary("-", v)
		},
		"int": toInt, "float": toFloat, "round": round,
	}
}

func escapeFilter(r *renderer, v Value, a *callArgs) Value {
	a.to("escape()")
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(escape(r.str(v)))
}

// titleFilter is jinja2's title. Unlike str.title, it begins a word only after white space or one
// of -({[<.
func titleFilter(s string) string {
	var b strings.Builder
	for s != "" {
		end := strings.IndexFunc(s, func(c rune) bool { return strings.ContainsRune("-({[<", c) || isSpace(c) })
		if end < 0 {
			end = len(s)
		}
		word := s[:end]
		_, n := utf8.DecodeRuneInString(word)
		b.WriteString(upper(word[:n]) + lower(word[n:]))
		s = s[end:]
		gap := len(s) - len(strings.TrimLeftFunc(s, func(c rune) bool {
			return strings.ContainsRune("-({[<", c) || isSpace(c)
		}))
		b.WriteString(s[:gap])
		s = s[gap:]
	}
	return b.String()
}

func urlencode(r *renderer, v Value, a *callArgs) Value {
	a.to("urlencode()")
	if _, ok := v.(*Dict); ok {
		fail("NotSupported", "the filter urlencode of a dict")
	}
	if _, ok := v.(*List); ok {
		fail("NotSupported", "the filter urlencode of a list")
	}
	s := r.str(v)
	r.alloc(3 * len(s))
	return strings.NewReplacer("+", "%20", "%2F", "/", "%7E", "~").Replace(url.QueryEscape(s))
}

func indent(r *renderer, v Value, a *callArgs) Value {
	p := a.to("indent()", "width", "first", "blank")
	margin, ok := asString(or(p[0], int64(4)))
	if !ok {
		margin = r.pad("", needInt("indent()", or(p[0], int64(4))), " ", func(n int) int { return n })
	}
	s, ok := asString(v)
	if !ok {
		refuse("indent()", v, "a string")
	}
	lines := splitLines(s+"\n", false)
	blank := truth(or(p[2], false))
	w := &writer{budget: &r.budget}
	for i, line := range lines {
		if i > 0 {
			w.write("\n")
		}
		if i > 0 && (blank || line != "") || i == 0 && truth(or(p[1], false)) {
			w.write(margin)
		}
		w.write(line)
	}
	return safeLike(v, w.String())
}

// tojson is transformers' own filter: json.dumps, without HTML escapes.
func tojson(r *renderer, v Value, a *callArgs) Value {
	p := a.to("tojson()", "ensure_ascii", "indent", "separators", "sort_keys")
	o := jsonOptions{ascii: truth(or(p[0], false)), item: ", ", pair: ": ", sortKeys: truth(or(p[3], false))}
	if by := or(p[1], nil); by != nil {
		o.lines, o.item = true, ","
		if s, ok := asString(by); ok {
			o.indent = s
		} else {
			n := needInt("tojson()", by)
			if n > 100 {
				fail("NotSupported", "an indent of tojson over 100")
			}
			o.indent = strings.Repeat(" ", max(n, 0))
		}
	}
	if s := or(p[2], nil); s != nil {
		parts := r.iterate(s)
		if len(parts) != 2 {
			fail("ValueError", "tojson() wants two separators, found %d", len(parts))
		}
		o.item, o.pair = needString("tojson()", parts[0]), needString("tojson()", parts[1])
	}
	w := &writer{budget: &r.budget}
	w.json(v, o, "", 0)
	return w.String()
}

func length(r *renderer, v Value, a *callArgs) Value {
	a.to("length()")
	return int64(r.length(v))
}

func defaultTo(_ *renderer, v Value, a *callArgs) Value {
	p := a.to("default()", "default_value", "boolean")
	if _, ok := v.(*undefined); ok || truth(or(p[1], false)) && !truth(v) {
		return or(p[0], "")
	}
	return v
}

// toInt is jinja2's int: it returns the default for values that are not numbers.
func toInt(r *renderer, v Value, a *callArgs) Value {
	p := a.to("int()", "default", "base")
	if base := needInt("int()", or(p[1], int64(10))); base != 10 {
		fail("NotSupported", "the filter int with base %d", base)
	}
	otherwise := or(p[0], int64(0))
	if u, ok := v.(*undefined); ok {
		u.fail()
	}
	if i, ok := asInt(v); ok {
		return i
	}
	f, ok := v.(float64)
	if s, isString := asString(v); isString {
		s = strings.TrimFunc(s, isSpace)
		if i, err := strconv.ParseInt(pythonNumber(s), 10, 64); err == nil {
			return i
		}
		f, ok = parseFloat(s)
	}
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return otherwise
	}
	if math.Abs(f) >= 1<<63 {
		overflow()
	}
	return int64(f)
}

// pythonNumber removes single underscores between digits. It returns an empty string if there are
// others.
func pythonNumber(s string) string {
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i+1 == len(s) || !isDigit(s[i-1]) || !isDigit(s[i+1])) {
			return ""
		}
	}
	return strings.ReplaceAll(s, "_", "")
}

func parseFloat(s string) (float64, bool) {
	s = pythonNumber(strings.TrimFunc(s, isSpace))
	if strings.ContainsAny(s, "xXpP") { // Go's hexadecimal floats, which Python's float refuses
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func toFloat(_ *renderer, v Value, a *callArgs) Value {
	otherwise := or(a.to("float()", "default")[0], 0.0)
	if u, ok := v.(*undefined); ok {
		u.fail()
	}
	f, ok := asFloat(v)
	if s, isString := asString(v); isString {
		f, ok = parseFloat(s)
	}
	if !ok {
		return otherwise
	}
	return f
}

func round(_ *renderer, v Value, a *callArgs) Value {
	p := a.to("round()", "precision", "method")
	decimals := needInt("round()", or(p[0], int64(0)))
	how := needString("round()", or(p[1], "common"))
	f, ok := asFloat(v)
	if !ok {
		refuse("round()", v, "a number")
	}
	if decimals < 0 || decimals > 300 || math.IsNaN(f) || math.IsInf(f, 0) {
		fail("NotSupported", "the filter round of %g to %d decimals", f, decimals)
	}
	scale := math.Pow(10, float64(decimals))
	switch how {
	case "common":
		if i, ok := asInt(v); ok {
			return i
		}
		return pyfloat.Round(f, decimals)
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	}
	fail("FilterArgumentError", "method must be common, ceil or floor")
	return nil
}
