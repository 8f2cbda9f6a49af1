package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// writer is a strings.Builder whose bytes are charged to a budget.
type writer struct {
	strings.Builder
	*budget
}

func (w *writer) write(s string) {
	w.alloc(len(s))
	w.WriteString(s)
}

// deeper charges a step and returns depth+1; it fails if values are nested too deep.
func (w *writer) deeper(depth int) int {
	w.spend(stepCost)
	if depth > maxData {
		fail("RecursionError", "a value that is written nests more than %d deep", maxData)
	}
	return depth + 1
}

// str is Python's str.
func (b *budget) str(v Value) string {
	if s, ok := asString(v); ok {
		return s
	}
	if _, ok := v.(*undefined); ok {
		return ""
	}
	return b.repr(v)
}

// repr is Python's repr.
func (b *budget) repr(v Value) string {
	w := &writer{budget: b}
	w.repr(v, 0)
	return w.String()
}

func (w *writer) repr(v Value, depth int) {
	depth = w.deeper(depth)
	switch v := v.(type) {
	case nil:
		w.write("None")
	case bool:
		w.write(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		w.write(strconv.FormatInt(v, 10))
	case float64:
		w.write(pyfloat.Repr(v))
	case string:
		w.reprString(v)
	case markup:
		w.write("Markup(")
		w.reprString(string(v))
		w.write(")")
	case *List:
		w.reprList(v, depth)
	case *Dict:
		w.write("{")
		for i, key := range v.keys {
			if i > 0 {
				w.write(", ")
			}
			w.repr(key, depth)
			w.write(": ")
			w.repr(v.values[i], depth)
		}
		w.write("}")
	case *undefined:
		w.write("Undefined")
	case *namespace:
		w.write("<Namespace ")
		w.repr(v.of, depth)
		w.write(">")
	case *loop:
		w.write(fmt.Sprintf("<LoopContext %d/%d>", v.index+1, len(v.items)))
	case *macro:
		w.write("<Macro ")
		w.reprString(v.name)
		w.write(">")
	default: // Python would write an address
		fail("NotSupported", "a %s as text", typeName(v))
	}
}

func (w *writer) reprList(v *List, depth int) {
	if v.kind == kindRange {
		w.write(v.text)
		return
	}
	begin, end := "[", "]"
	switch v.kind {
	case kindTuple:
		begin, end = "(", ")"
		if len(v.items) == 1 {
			end = ",)"
		}
	case kindItems, kindKeys, kindValues:
		begin, end = string(v.kind)+"([", "])"
	}
	w.write(begin)
	for i, item := range v.items {
		if i > 0 {
			w.write(", ")
		}
		w.repr(item, depth)
	}
	w.write(end)
}

func (w *writer) reprString(s string) {
	quote := `'`
	if strings.Contains(s, `'`) && !strings.Contains(s, `"`) {
		quote = `"`
	}
	w.alloc(len(s) + 2)
	w.WriteString(quote)
	for _, c := range s {
		switch {
		case c == '\n':
			w.WriteString(`\n`)
		case c == '\r':
			w.WriteString(`\r`)
		case c == '\t':
			w.WriteString(`\t`)
		case c == '\\' || string(c) == quote:
			w.WriteString(`\` + string(c))
		case unicode.IsPrint(c):
			w.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(w, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(w, `\u%04x`, c)
		default:
			fmt.Fprintf(w, `\U%08x`, c)
		}
	}
	w.WriteString(quote)
}

// jsonOptions holds the options of Python's json.dumps.
type jsonOptions struct {
	ascii      bool
	indent     string
	lines      bool // each item on its own line
	item, pair string
	sortKeys   bool
}

func (w *writer) json(v Value, o jsonOptions, margin string, depth int) {
	depth = w.deeper(depth)
	if s, ok := asString(v); ok {
		w.jsonString(s, o.ascii)
		return
	}
	switch v := v.(type) {
	case nil:
		w.write("null")
	case bool:
		w.write(strconv.FormatBool(v))
	case int64:
		w.write(strconv.FormatInt(v, 10))
	case float64:
		w.write(jsonFloat(v))
	case *List:
		if v.kind != kindList && v.kind != kindTuple {
			fail("TypeError", "Object of type %s is not JSON serializable", typeName(v))
		}
		w.jsonItems("[", "]", len(v.items), o, margin, func(i int, inner string) {
			w.json(v.items[i], o, inner, depth)
		})
	case *Dict:
		keys := make([]string, len(v.keys))
		for i, key := range v.keys {
			keys[i] = jsonKey(key)
		}
		order := w.order(v, o.sortKeys)
		w.jsonItems("{", "}", len(keys), o, margin, func(i int, inner string) {
			w.jsonString(keys[order[i]], o.ascii)
			w.write(o.pair)
			w.json(v.values[order[i]], o, inner, depth)
		})
	default:
		fail("TypeError", "Object of type %s is not JSON serializable", typeName(v))
	}
}

// order returns the indices of the keys in the order in which they are written.
func (w *writer) order(d *Dict, byKey bool) []int {
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if byKey {
		w.sort(order, func(i int) Value { return d.keys[i] }, false)
	}
	return order
}

// jsonItems writes n items with write, between brackets and with separators.
func (w *writer) jsonItems(begin, end string, n int, o jsonOptions, margin string, write func(i int, margin string)) {
	w.write(begin)
	inner := margin + o.indent
	for i := range n {
		if i > 0 {
			w.write(o.item)
		}
		if o.lines {
			w.write("\n" + inner)
		}
		write(i, inner)
	}
	if o.lines && n > 0 {
		w.write("\n" + margin)
	}
	w.write(end)
}

func jsonFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]
	}
	return pyfloat.Repr(v)
}

func jsonKey(v Value) string {
	if s, ok := asString(v); ok {
		return s
	}
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return jsonFloat(v)
	}
	fail("TypeError", "keys must be str, int, float, bool or None, not %s", typeName(v))
	return ""
}

func (w *writer) jsonString(s string, ascii bool) {
	w.alloc(len(s) + 2)
	w.WriteByte('"')
	for _, c := range s {
		if i := strings.IndexRune("\"\\\n\r\t\f\b", c); i >= 0 {
			w.WriteString(`\` + `"\nrtfb`[i:i+1])
			continue
		}
		switch {
		case c < 0x20 || ascii && c > 0x7e && c < 0x10000:
			fmt.Fprintf(w, `\u%04x`, c)
		case ascii && c >= 0x10000:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(w, `\u%04x\u%04x`, high, low)
		default:
			w.WriteRune(c)
		}
	}
	w.WriteByte('"')
}
