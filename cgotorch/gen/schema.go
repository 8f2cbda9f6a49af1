package main

import (
	"fmt"
	"strings"
)

// op is one line of ops.txt with its parsed schema.
type op struct {
	goName, doc             string
	name                    string // add.Tensor
	schema                  string
	python                  string // name in Python if it cannot be derived from the operator's
	args                    []*arg
	returns                 []string // "Tensor", "Tensor[]", "bool", "Scalar", ...; none for an in-place operator
	inPlace                 bool
	function, raw, variadic bool
}

type arg struct {
	typ, name, def string
	hidden         bool
}

func (o *op) arg(name string) *arg {
	for _, a := range o.args {
		if a.name == name {
			return a
		}
	}
	return nil
}

// aten returns the name of the operator's C++ struct in at::_ops: add_Tensor.
func (o *op) aten() string { return strings.ReplaceAll(o.name, ".", "_") }

// header returns the base name of the ATen header that declares the operator's struct.
func (o *op) header() string {
	base, _, _ := strings.Cut(o.name, ".")
	return strings.TrimSuffix(base, "_")
}

// visible returns the arguments that the Go function takes.
func (o *op) visible() (list []*arg) {
	for _, a := range o.args {
		if !a.hidden {
			list = append(list, a)
		}
	}
	return list
}

// method reports whether the Go function is a method, which it is if its first argument is a
// tensor.
func (o *op) method() bool {
	v := o.visible()
	return !o.function && len(v) > 0 && strings.HasPrefix(v[0].typ, "Tensor") && !strings.HasSuffix(v[0].typ, "]") &&
		v[0].typ != "Tensor?"
}

func (o *op) check() error {
	for _, a := range o.args {
		switch {
		case a.typ == "Layout?" || a.name == "pin_memory": // factories take dtype and device only
			a.hidden = true
		case a.hidden:
		default:
			if _, ok := kinds[a.typ]; !ok {
				return fmt.Errorf("%s: no mapping for the type %s of %s", o.name, a.typ, a.name)
			}
		}
		if a.hidden {
			if _, err := a.constant(); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
	}
	if o.variadic {
		v := o.visible()
		if last := v[len(v)-1].typ; last != "int[]" && last != "SymInt[]" {
			return fmt.Errorf("%s: its last parameter is %s, which cannot be variadic", o.name, last)
		}
	}
	return nil
}

// constant returns the schema's default of a hidden argument as a C++ expression.
func (a *arg) constant() (string, error) {
	switch {
	case strings.HasSuffix(a.typ, "?") && (a.def == "None" || a.def == ""):
		return "{}", nil
	case a.def == "True":
		return "true", nil
	case a.def == "False":
		return "false", nil
	case a.def == "Mean":
		return "at::Reduction::Mean", nil
	case strings.HasPrefix(a.def, "'"):
		return strings.ReplaceAll(a.def, "'", `"`), nil
	case a.def == "" || strings.HasPrefix(a.def, "["):
		return "", fmt.Errorf("argument %s has no default that can be hidden", a.name)
	}
	return a.def, nil
}

// parseSchema parses a schema such as "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) ->
// Tensor".
func parseSchema(schema string) (*op, error) {
	open, arrow := strings.IndexByte(schema, '('), strings.LastIndex(schema, ") -> ")
	if open < 0 || arrow < open {
		return nil, fmt.Errorf("not a schema: %q", schema)
	}
	o := &op{name: schema[:open], schema: schema}
	for _, text := range splitTop(schema[open+1 : arrow]) {
		if text == "*" {
			continue
		}
		declaration, def, _ := strings.Cut(text, "=")
		space := strings.LastIndexByte(declaration, ' ')
		if space < 0 {
			return nil, fmt.Errorf("not an argument: %q in %q", text, schema)
		}
		a := &arg{name: declaration[space+1:], def: def}
		var written bool
		a.typ, written = stripAlias(declaration[:space])
		if written && a.typ == "Tensor" {
			a.typ = "Tensor!"
		}
		o.args = append(o.args, a)
	}
	results := strings.TrimSpace(schema[arrow+len(") -> "):])
	if strings.HasPrefix(results, "(") {
		results = strings.TrimSuffix(results[1:], ")")
	}
	for _, text := range splitTop(results) {
		typ, written := stripAlias(text)
		typ, _, _ = strings.Cut(typ, " ")
		o.inPlace = o.inPlace || written
		o.returns = append(o.returns, typ)
	}
	if len(o.args) > 0 && strings.HasSuffix(strings.SplitN(o.name, ".", 2)[0], "_") {
		o.inPlace = true
	}
	if o.inPlace { // the result is the first argument itself
		o.returns = nil
	}
	return o, nil
}

// stripAlias turns "Tensor(a!)[]" into "Tensor[]" and reports whether the argument is written to.
// "int[2]" becomes "int[]".
func stripAlias(t string) (string, bool) {
	written := strings.Contains(t, "!")
	if i := strings.IndexByte(t, '('); i >= 0 {
		t = t[:i] + t[i+strings.IndexByte(t[i:], ')')+1:]
	}
	if i := strings.IndexByte(t, '['); i >= 0 {
		t = t[:i+1] + t[i+strings.IndexByte(t[i:], ']'):]
	}
	return t, written
}

// splitTop splits s at commas that are not inside brackets.
func splitTop(s string) (parts []string) {
	depth, start := 0, 0
	for i, c := range s {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	if last := strings.TrimSpace(s[start:]); last != "" {
		parts = append(parts, last)
	}
	return parts
}
