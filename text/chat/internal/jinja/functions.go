package jinja

import (
	"fmt"
	"strings"
	"time"
)

// globalFunctions are the functions that every template has: jinja2's and transformers'.
var globalFunctions map[string]*function

func init() { // not in the declaration: that would be an initialization cycle
	globalFunctions = map[string]*function{
		"range": {"range", rangeOf},
		"dict":  {"dict", func(r *renderer, a *callArgs) Value { return r.dictOf("dict", a) }},
		"namespace": {"namespace", func(r *renderer, a *callArgs) Value {
			return &namespace{r.dictOf("namespace", a)}
		}},
		"joiner":          {"joiner", joiner},
		"cycler":          {"cycler", unsupported("cycler")},
		"lipsum":          {"lipsum", unsupported("lipsum")},
		"raise_exception": {"raise_exception", raise},
		"strftime_now":    {"strftime_now", now},
	}
}

func unsupported(name string) func(*renderer, *callArgs) Value {
	return func(*renderer, *callArgs) Value {
		fail("NotSupported", "the function %q", name)
		return nil
	}
}

func raise(r *renderer, a *callArgs) Value {
	fail("TemplateError", "%s", r.str(or(a.to("raise_exception()", "message")[0], "")))
	return nil
}

func now(r *renderer, a *callArgs) Value {
	clock := r.now
	if clock == nil {
		clock = time.Now
	}
	return strftime(clock(), needString("strftime_now()", a.to("strftime_now()", "format")[0]))
}

func rangeOf(r *renderer, a *callArgs) Value {
	var bounds []int64
	for _, v := range a.to("range()", "start", "stop", "step") {
		if _, ok := v.(absent); !ok {
			bounds = append(bounds, int64(needInt("range()", v)))
		}
	}
	start, stop, step := int64(0), int64(0), int64(1)
	text := ""
	switch len(bounds) {
	case 0:
		fail("TypeError", "range expected at least 1 argument, got 0")
	case 1:
		stop = bounds[0]
	case 2:
		start, stop = bounds[0], bounds[1]
	case 3:
		start, stop, step = bounds[0], bounds[1], bounds[2]
		text = fmt.Sprintf(", %d", step)
	}
	if step == 0 {
		fail("ValueError", "range() arg 3 must not be zero")
	}
	l := &List{kind: kindRange, text: fmt.Sprintf("range(%d, %d%s)", start, stop, text)}
	if step == 1 {
		l.text = fmt.Sprintf("range(%d, %d)", start, stop)
	}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(l.items) == maxRange {
			fail("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
		}
		l.items = append(l.items, i)
		if next := i + step; (next > i) != (step > 0) {
			break // beyond 64 bits
		}
	}
	return l
}

// dictOf is Python's dict: from a mapping or pairs, and keywords.
func (r *renderer) dictOf(function string, a *callArgs) *Dict {
	d := NewDict()
	switch len(a.positional) {
	case 0:
	case 1:
		switch of := a.positional[0].(type) {
		case *Dict:
			for i, key := range of.keys {
				d.Set(key, of.values[i])
			}
		default:
			for _, pair := range r.iterate(of) {
				items := r.iterate(pair)
				if len(items) != 2 {
					fail("ValueError", "dictionary update sequence element has length %d; 2 is required", len(items))
				}
				d.Set(items[0], items[1])
			}
		}
	default:
		fail("TypeError", "%s expected at most 1 argument, got %d", function, len(a.positional))
	}
	for i, name := range a.names {
		d.Set(name, a.values[i])
	}
	r.alloc(size(d))
	return d
}

// joiner is jinja2's joiner: it returns a function that returns an empty string the first time, and
// the separator from then on.
func joiner(r *renderer, a *callArgs) Value {
	separator := r.str(or(a.to("joiner()", "sep")[0], ", "))
	used := false
	return &function{"joiner", func(*renderer, *callArgs) Value {
		if !used {
			used = true
			return ""
		}
		return separator
	}}
}

// escape is markupsafe's escape.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}
