package jinja

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Span is a range of a text; End is not part of it.
type Span struct{ Start, End int }

// Result is the result of rendering a template.
type Result struct {
	Text string
	// Generated holds the spans of {% generation %} blocks, in characters. Like transformers', a
	// span begins at the length that the output had when the block began.
	Generated []Span
}

// Render renders the template with variables. Now is the time for strftime_now.
func (t *Template) Render(variables *Dict, now func() time.Time) (Result, error) {
	return t.render(variables, now, budget{fuel: maxFuel, memory: maxMemory})
}

func (t *Template) render(variables *Dict, now func() time.Time, b budget) (res Result, err error) {
	r := &renderer{budget: b, now: now}
	defer catch(&err, &r.line)
	r.out = &writer{budget: &r.budget}
	root := r.out
	r.position = func() int {
		// Count only new text, so that many blocks do not take quadratic time.
		s := root.String()
		r.counted += utf8.RuneCountInString(s[r.countedBytes:])
		r.countedBytes = len(s)
		return r.counted
	}
	globals := &scope{vars: map[string]Value{}}
	for name, f := range globalFunctions {
		globals.vars[name] = f
	}
	for i, key := range variables.keys {
		if s, ok := key.(string); ok {
			globals.vars[s] = variables.values[i]
		}
	}
	r.run(t.body, &scope{vars: map[string]Value{}, outer: globals})
	return Result{root.String(), r.generated}, nil
}

// renderer is the state of a rendering.
type renderer struct {
	budget
	line      int
	out       *writer
	now       func() time.Time
	generated []Span

	position              func() int // characters of the output so far, without unfinished macros and blocks
	counted, countedBytes int
}

// scope holds the variables of a loop, a macro or the template. Assignments change the innermost
// one.
type scope struct {
	vars  map[string]Value
	outer *scope
}

func (s *scope) inner() *scope { return &scope{vars: map[string]Value{}, outer: s} }

func (s *scope) lookup(name string) Value {
	for ; s != nil; s = s.outer {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefinedf("'%s' is undefined", name)
}

// flow says how a body ended.
type flow int

const (
	flowOn flow = iota
	flowBreak
	flowContinue
)

func (r *renderer) run(body []stmt, s *scope) flow {
	for _, st := range body {
		if f := r.statement(st, s); f != flowOn {
			return f
		}
	}
	return flowOn
}

func (r *renderer) statement(st stmt, s *scope) flow {
	r.enter()
	defer r.leave()
	switch st := st.(type) {
	case *text:
		r.out.write(st.text)
	case *output:
		r.line = st.line
		r.out.write(r.str(r.eval(st.of, s)))
	case *ifStmt:
		for _, b := range st.branches {
			if b.test != nil {
				r.line = b.line
			}
			if b.test == nil || truth(r.eval(b.test, s)) {
				return r.run(b.body, s)
			}
		}
	case *forStmt:
		r.line = st.line
		r.loop(st, s)
	case *setStmt:
		r.line = st.line
		r.assign(st.target, r.eval(st.value, s), s)
	case *setBlock:
		var v Value = r.capture(st.body, s.inner())
		r.line = st.line
		if st.filter != nil {
			v = r.filtered(st.filter, v, s)
		}
		r.assign(st.target, v, s)
	case *macroStmt:
		s.vars[st.name] = &macro{st, s}
	case *callBlock:
		r.line = st.line
		of := r.eval(st.call.of, s)
		a := r.bind(st.call.args, s)
		a.names, a.values = append(a.names, "caller"), append(a.values, Value(&macro{st.caller, s}))
		v := r.str(r.call(of, a))
		r.out.write(v)
	case *filterBlock:
		v := r.capture(st.body, s.inner())
		r.line = st.line
		r.out.write(r.str(r.filtered(st.filter, v, s)))
	case *withStmt:
		r.line = st.line
		inner := s.inner()
		for i, target := range st.targets {
			r.assign(target, r.eval(st.values[i], s), inner)
		}
		return r.run(st.body, inner)
	case *generation:
		start := r.position()
		v := r.capture(st.body, s.inner())
		r.generated = append(r.generated, Span{start, start + utf8.RuneCountInString(v)})
		r.out.write(v)
	case breakStmt:
		return flowBreak
	case continueStmt:
		return flowContinue
	}
	return flowOn
}

// capture runs a body and returns its output.
func (r *renderer) capture(body []stmt, s *scope) string {
	w := r.out
	r.out = &writer{budget: &r.budget}
	r.run(body, s)
	text := r.out.String()
	r.out = w
	return text
}

// loop is the variable loop of a for statement.
type loop struct {
	items   []Value
	index   int
	changed Value // the last arguments of loop.changed; nil if it was not called
}

func (r *renderer) loop(st *forStmt, s *scope) {
	items := r.iterate(r.eval(st.items, s))
	if st.condition != nil {
		var kept []Value
		for _, item := range items {
			inner := s.inner()
			r.assign(st.target, item, inner)
			if truth(r.eval(st.condition, inner)) {
				r.alloc(16)
				kept = append(kept, item)
			}
		}
		items = kept
	}
	l := &loop{items: items}
	for i, item := range items {
		r.spend(stepCost)
		l.index = i
		inner := s.inner()
		inner.vars["loop"] = l
		r.assign(st.target, item, inner)
		if r.run(st.body, inner) == flowBreak {
			break
		}
	}
	if len(items) == 0 {
		r.run(st.otherwise, s.inner())
	}
}

// assign assigns a value to a target.
func (r *renderer) assign(target expr, v Value, s *scope) {
	switch t := target.(type) {
	case *name:
		s.vars[t.name] = v
	case *nsRef:
		ns, ok := s.lookup(t.name).(*namespace)
		if !ok {
			fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
		}
		r.alloc(64)
		ns.of.Set(t.attr, v)
	case *tuple:
		items := r.iterate(v)
		if len(items) < len(t.items) {
			fail("ValueError", "not enough values to unpack (expected %d, got %d)", len(t.items), len(items))
		}
		if len(items) > len(t.items) {
			fail("ValueError", "too many values to unpack (expected %d)", len(t.items))
		}
		for i, item := range t.items {
			r.assign(item, items[i], s)
		}
	}
}

// macro is a macro with the scope in which it was defined.
type macro struct {
	*macroStmt
	scope *scope
}

func (r *renderer) callMacro(m *macro, a *callArgs) string {
	s := m.scope.inner()
	extra := NewDict()
	for i, v := range a.positional[:min(len(a.positional), len(m.params))] {
		s.vars[m.params[i]] = v
	}
	for i, key := range a.names {
		at := -1
		for j, param := range m.params {
			if param == key {
				at = j
			}
		}
		switch {
		case at >= len(a.positional):
			s.vars[key] = a.values[i]
		case key == "caller" && m.uses["caller"]:
			s.vars["caller"] = a.values[i]
		case m.uses["kwargs"]:
			extra.Set(key, a.values[i])
		default:
			fail("TypeError", "macro '%s' takes no keyword argument '%s'", m.name, key)
		}
	}
	for i, param := range m.params {
		if _, ok := s.vars[param]; ok {
			continue
		}
		s.vars[param] = undefinedf("parameter '%s' was not provided", param)
		if d := i - (len(m.params) - len(m.defaults)); d >= 0 {
			s.vars[param] = r.eval(m.defaults[d], s)
		}
	}
	if _, ok := s.vars["caller"]; !ok && m.uses["caller"] {
		s.vars["caller"] = undefinedf("No caller defined")
	}
	if m.uses["kwargs"] {
		s.vars["kwargs"] = extra
	}
	rest := a.positional[min(len(a.positional), len(m.params)):]
	if m.uses["varargs"] {
		s.vars["varargs"] = newTuple(rest...)
	} else if len(rest) > 0 {
		fail("TypeError", "macro '%s' takes not more than %d argument(s)", m.name, len(m.params))
	}
	line := r.line
	text := r.capture(m.body, s)
	r.line = line
	return text
}

// strftime formats a time as Python's strftime does.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		plain := format[i] == '-' && i+1 < len(format)
		if plain {
			i++
		}
		layout, ok := map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2",
			'm': "01", 'y': "06", 'Y': "2006", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002",
			'Z': "", 'z': "",
			'%': "%", 'n': "\n", 't': "\t", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
			'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05"}[format[i]]
		if format[i] == 'f' {
			layout, ok = t.Format(".000000")[1:], true
		}
		if !ok {
			fail("NotSupported", "%%%c in the format of strftime_now", format[i])
		}
		s := t.Format(layout)
		if plain {
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String()
}
