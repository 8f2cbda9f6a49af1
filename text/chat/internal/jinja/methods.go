package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method is a method of a value.
type method func(r *renderer, of Value, a *callArgs) Value

// methods holds the supported methods of Python's types.
var methods map[string]map[string]method

func init() { // not in the declaration: that would be an initialization cycle
	methods = map[string]map[string]method{
		"str": stringMethods,
		"list": {
			"copy": func(_ *renderer, of Value, a *callArgs) Value {
				a.to("copy()")
				return NewList(of.(*List).items...)
			},
			"count": countItems, "index": indexOfItem,
		},
		"tuple": {"count": countItems, "index": indexOfItem},
		"range": {"count": countItems, "index": indexOfItem},
		"dict":  dictMethods,
	}
}

var dictMethods = map[string]method{
	"get": func(_ *renderer, of Value, a *callArgs) Value {
		p := a.to("get()", "key", "default")
		if len(a.names) > 0 {
			fail("TypeError", "dict.get() takes no keyword arguments")
		}
		if v, ok := of.(*Dict).Get(p[0]); ok {
			return v
		}
		return or(p[1], nil)
	},
	"items": func(r *renderer, of Value, a *callArgs) Value {
		a.to("items()")
		d := of.(*Dict)
		r.alloc(64 * len(d.keys))
		return &List{kind: kindItems, items: d.items()}
	},
	"keys": func(_ *renderer, of Value, a *callArgs) Value {
		a.to("keys()")
		return &List{kind: kindKeys, items: of.(*Dict).keys}
	},
	"values": func(_ *renderer, of Value, a *callArgs) Value {
		a.to("values()")
		return &List{kind: kindValues, items: of.(*Dict).values}
	},
	"copy": func(r *renderer, of Value, a *callArgs) Value {
		a.to("copy()")
		return r.dictOf("copy()", &callArgs{positional: []Value{of}})
	},
}

func countItems(r *renderer, of Value, a *callArgs) Value {
	v := a.to("count()", "value")[0]
	n := int64(0)
	for _, item := range of.(*List).items {
		if r.equal(item, v, 0) {
			n++
		}
	}
	return n
}

func indexOfItem(r *renderer, of Value, a *callArgs) Value {
	v := a.to("index()", "value")[0]
	for i, item := range of.(*List).items {
		if r.equal(item, v, 0) {
			return int64(i)
		}
	}
	fail("ValueError", "%s is not in list", r.repr(v))
	return nil
}

// plain makes a method without arguments.
func plain[T any](name string, f func(string) T) method {
	return func(r *renderer, of Value, a *callArgs) Value {
		a.to(name + "()")
		s, _ := asString(of)
		r.alloc(3 * len(s))
		return f(s)
	}
}

var stringMethods = map[string]method{
	"upper": plain("upper", upper), "lower": plain("lower", lower), "title": plain("title", titleWords),
	"capitalize": plain("capitalize", capitalize), "swapcase": plain("swapcase", swapCase),
	"casefold": func(_ *renderer, of Value, a *callArgs) Value {
		a.to("casefold()")
		s, _ := asString(of)
		if !every(s+" ", func(c rune) bool { return c < 0x80 }) {
			fail("NotSupported", "casefold() of characters beyond ASCII")
		}
		return lower(s)
	},
	"isspace": plain("isspace", func(s string) bool { return every(s, isSpace) }),
	"isalpha": plain("isalpha", func(s string) bool { return every(s, unicode.IsLetter) }),
	"isalnum": plain("isalnum", func(s string) bool {
		return every(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
	}),
	"isdigit": plain("isdigit", func(s string) bool {
		return every(s, func(c rune) bool {
			return unicode.IsDigit(c) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", c)
		})
	}),
	"isupper": plain("isupper", func(s string) bool { return allCased(s, isUpper) }),
	"islower": plain("islower", func(s string) bool { return allCased(s, isLower) }),
	"strip":   stripper("strip", true, true), "lstrip": stripper("lstrip", true, false),
	"rstrip":     stripper("rstrip", false, true),
	"startswith": affix("startswith", strings.HasPrefix), "endswith": affix("endswith", strings.HasSuffix),
	"removeprefix": trimmer("removeprefix", strings.TrimPrefix),
	"removesuffix": trimmer("removesuffix", strings.TrimSuffix),
	"split":        splitter("split", false), "rsplit": splitter("rsplit", true),
	"splitlines": func(r *renderer, of Value, a *callArgs) Value {
		keep := a.to("splitlines()", "keepends")[0]
		s, _ := asString(of)
		return r.strings(splitLines(s, truth(or(keep, false))))
	},
	"replace": func(r *renderer, of Value, a *callArgs) Value {
		p := a.to("replace()", "old", "new", "count")
		s, _ := asString(of)
		return r.replace(s, needString("replace()", p[0]), needString("replace()", p[1]), needInt("replace()",
			or(p[2], int64(-1))))
	},
	"join": func(r *renderer, of Value, a *callArgs) Value {
		items := r.iterate(a.to("join()", "iterable")[0])
		for i, item := range items {
			if _, ok := asString(item); !ok {
				fail("TypeError", "sequence item %d: expected str instance, %s found", i, typeName(item))
			}
		}
		s, _ := asString(of)
		return r.join(s, items)
	},
	"find": finder("find", strings.Index, false), "rfind": finder("rfind", strings.LastIndex, false),
	"index": finder("index", strings.Index, true), "rindex": finder("rindex", strings.LastIndex, true),
	"count": func(_ *renderer, of Value, a *callArgs) Value {
		s, _ := asString(of)
		return int64(strings.Count(s, needString("count()", a.to("count()", "sub")[0])))
	},
	"partition":  partitioner("partition", strings.Index),
	"rpartition": partitioner("rpartition", strings.LastIndex),
	"zfill": func(r *renderer, of Value, a *callArgs) Value {
		s, _ := asString(of)
		sign := ""
		if s != "" && strings.Contains("+-", s[:1]) {
			sign = s[:1]
		}
		width := needInt("zfill()", a.to("zfill()", "width")[0]) - len(sign)
		return sign + r.pad(s[len(sign):], width, "0", func(n int) int { return n })
	},
	"ljust":  padder("ljust", func(int, int) int { return 0 }),
	"rjust":  padder("rjust", func(n, _ int) int { return n }),
	"center": padder("center", centered),
	"format": formatMethod,
}

// centered returns how much of the padding str.center puts on the left.
func centered(padding, width int) int { return padding/2 + padding&width&1 }

// strings makes a list of strings.
func (r *renderer) strings(parts []string) *List {
	r.alloc(16 * len(parts))
	l := NewList()
	for _, s := range parts {
		l.items = append(l.items, s)
	}
	return l
}

func (r *renderer) join(separator string, items []Value) string {
	w := &writer{budget: &r.budget}
	for i, item := range items {
		if i > 0 {
			w.write(separator)
		}
		w.write(r.str(item))
	}
	return w.String()
}

func (r *renderer) replace(s, old, replacement string, count int) string {
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if more := len(replacement) - len(old); more > 0 && n > 0 {
		if n > maxMemory/more {
			r.alloc(maxMemory + 1)
		}
		r.alloc(n * more)
	}
	return strings.Replace(s, old, replacement, count)
}

// strip is Python's strip, of whitespace if chars is nil.
func strip(s string, chars Value, left, right bool) string {
	drop := isSpace
	if set, ok := asString(chars); ok {
		drop = func(c rune) bool { return strings.ContainsRune(set, c) }
	} else if chars != nil {
		refuse("strip()", chars, "None or a string")
	}
	if left {
		s = strings.TrimLeftFunc(s, drop)
	}
	if right {
		s = strings.TrimRightFunc(s, drop)
	}
	return s
}

func stripper(name string, left, right bool) method {
	return func(r *renderer, of Value, a *callArgs) Value {
		chars := or(a.to(name+"()", "chars")[0], nil)
		s, _ := asString(of)
		r.spend(len(s) * max(1, size(chars)/8))
		return strip(s, chars, left, right)
	}
}

func affix(name string, has func(s, part string) bool) method {
	return func(_ *renderer, of Value, a *callArgs) Value {
		p := a.to(name+"()", "prefix")[0]
		s, _ := asString(of)
		if t, ok := p.(*List); ok && t.kind == kindTuple {
			return slices.ContainsFunc(t.items, func(v Value) bool { return has(s, needString(name+"()", v)) })
		}
		return has(s, needString(name+"()", p))
	}
}

func trimmer(name string, trim func(s, part string) string) method {
	return func(_ *renderer, of Value, a *callArgs) Value {
		s, _ := asString(of)
		return trim(s, needString(name+"()", a.to(name+"()", "part")[0]))
	}
}

func finder(name string, find func(s, part string) int, must bool) method {
	return func(_ *renderer, of Value, a *callArgs) Value {
		s, _ := asString(of)
		at := find(s, needString(name+"()", a.to(name+"()", "sub")[0]))
		if at < 0 {
			if must {
				fail("ValueError", "substring not found")
			}
			return int64(-1)
		}
		return int64(utf8.RuneCountInString(s[:at]))
	}
}

func partitioner(name string, find func(s, part string) int) method {
	return func(_ *renderer, of Value, a *callArgs) Value {
		s, _ := asString(of)
		separator := needString(name+"()", a.to(name+"()", "sep")[0])
		if separator == "" {
			fail("ValueError", "empty separator")
		}
		at := find(s, separator)
		switch {
		case at >= 0:
			return newTuple(s[:at], separator, s[at+len(separator):])
		case name == "partition":
			return newTuple(s, "", "")
		}
		return newTuple("", "", s)
	}
}

// pad fills a string up to width; left returns how much of the padding goes on the left.
func (r *renderer) pad(s string, width int, fill string, left func(padding int) int) string {
	n := width - utf8.RuneCountInString(s)
	if n <= 0 {
		return s
	}
	if n > maxMemory {
		r.alloc(maxMemory + 1)
	}
	r.alloc(n * len(fill))
	before := left(n)
	return strings.Repeat(fill, before) + s + strings.Repeat(fill, n-before)
}

func padder(name string, left func(padding, width int) int) method {
	return func(r *renderer, of Value, a *callArgs) Value {
		p := a.to(name+"()", "width", "fillchar")
		fill := needString(name+"()", or(p[1], " "))
		if utf8.RuneCountInString(fill) != 1 {
			fail("TypeError", "The fill character must be exactly one character long")
		}
		s, _ := asString(of)
		width := needInt(name+"()", p[0])
		return r.pad(s, width, fill, func(padding int) int { return left(padding, width) })
	}
}

func splitter(name string, fromRight bool) method {
	return func(r *renderer, of Value, a *callArgs) Value {
		p := a.to(name+"()", "sep", "maxsplit")
		s, _ := asString(of)
		limit := needInt(name+"()", or(p[1], int64(-1)))
		if or(p[0], nil) == nil {
			return r.strings(splitSpaces(s, limit, fromRight))
		}
		separator := needString(name+"()", p[0])
		if separator == "" {
			fail("ValueError", "empty separator")
		}
		if limit < 0 {
			return r.strings(strings.Split(s, separator))
		}
		if !fromRight {
			return r.strings(strings.SplitN(s, separator, limit+1))
		}
		var parts []string
		for ; limit > 0; limit-- {
			at := strings.LastIndex(s, separator)
			if at < 0 {
				break
			}
			parts = append(parts, s[at+len(separator):])
			s = s[:at]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return r.strings(parts)
	}
}

// splitSpaces is str.split without a separator: runs of whitespace separate the parts, none of
// which is empty.
func splitSpaces(s string, limit int, fromRight bool) (parts []string) {
	for {
		if fromRight {
			s = strings.TrimRightFunc(s, isSpace)
		} else {
			s = strings.TrimLeftFunc(s, isSpace)
		}
		if s == "" {
			break
		}
		at, rest := -1, ""
		if limit != 0 && fromRight {
			if at = strings.LastIndexFunc(s, isSpace); at >= 0 {
				_, n := utf8.DecodeRuneInString(s[at:])
				parts, rest = append(parts, s[at+n:]), s[:at]
			}
		} else if limit != 0 {
			if at = strings.IndexFunc(s, isSpace); at >= 0 {
				parts, rest = append(parts, s[:at]), s[at:]
			}
		}
		if at < 0 {
			if limit == 0 && fromRight {
				s = strings.TrimRightFunc(s, isSpace)
			}
			parts = append(parts, s)
			break
		}
		s = rest
		limit--
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

// splitLines is Python's splitlines.
func splitLines(s string, keep bool) (lines []string) {
	begin := 0
	for i, c := range s {
		if i < begin || !strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", c) {
			continue
		}
		end := i + utf8.RuneLen(c)
		if c == '\r' && strings.HasPrefix(s[end:], "\n") {
			end++
		}
		if keep {
			lines = append(lines, s[begin:end])
		} else {
			lines = append(lines, s[begin:i])
		}
		begin = end
	}
	if begin < len(s) {
		lines = append(lines, s[begin:])
	}
	return lines
}
