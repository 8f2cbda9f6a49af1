package omegaconf

import (
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Marshal formats a mapping like OmegaConf.save.
func Marshal(m Map) ([]byte, error) {
	if len(m) == 0 {
		return []byte("{}\n"), nil
	}
	e := &emitter{}
	err := e.mapping(m, 0, 0)
	return []byte(e.out.String()), err
}

const (
	bestIndent = 2
	bestWidth  = 80
	maxDepth   = 100 // far deeper than any configuration, but catches a Map that contains itself
	maxKey     = 128 // in bytes; a longer key is not written on the same line as its value
)

// emitter writes YAML in block style. column counts characters, as in libyaml, to decide where to
// fold lines.
type emitter struct {
	out    strings.Builder
	column int
}

func (e *emitter) put(s string) {
	e.out.WriteString(s)
	e.column += len([]rune(s))
}

func (e *emitter) newline(indent int) {
	e.out.WriteByte('\n')
	e.column = 0
	e.put(strings.Repeat(" ", indent))
}

// mapping writes the items of a non-empty mapping, starting at the position of the first key.
func (e *emitter) mapping(m Map, indent, depth int) error {
	for i, item := range m {
		if i > 0 {
			e.put(strings.Repeat(" ", indent))
		}
		key, err := keyScalar(item.Key)
		if err != nil {
			return err
		}
		if key.simple() {
			e.scalar(key, 0, false)
		} else {
			e.put("? ")
			e.scalar(key, indent+bestIndent, true)
			e.newline(indent)
		}
		e.put(":")
		if err := e.value(item.Value, indent, key.simple(), depth); err != nil {
			return fmt.Errorf("%v: %w", item.Key, err)
		}
	}
	return nil
}

// sequence writes the items of a non-empty list, starting at the position of the first dash.
func (e *emitter) sequence(list []any, indent, depth int) error {
	for i, v := range list {
		if i > 0 {
			e.put(strings.Repeat(" ", indent))
		}
		e.put("-")
		if err := e.value(v, indent, false, depth); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// value writes what follows a key or a dash, including the end of the line. If underKey is set,
// lists and mappings begin on a new line.
func (e *emitter) value(v any, indent int, underKey bool, depth int) error {
	v, err := normal(v)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("omegaconf: more than %d levels", maxDepth)
	}
	inner := indent + bestIndent
	begin := func() {
		if underKey {
			e.newline(inner)
		} else {
			e.put(" ")
		}
	}
	switch v := v.(type) {
	case Map:
		if len(v) > 0 {
			begin()
			return e.mapping(v, inner, depth+1)
		}
		e.put(" {}")
	case []any:
		if len(v) > 0 {
			if underKey { // lists under a key are not indented
				inner = indent
			}
			begin()
			return e.sequence(v, inner, depth+1)
		}
		e.put(" []")
	default:
		e.put(" ")
		e.scalar(scalarOf(v), inner, true)
	}
	e.newline(0)
	return nil
}

// scalarOf returns the text of a value and the style to write it in.
func scalarOf(v any) scalar {
	switch v := v.(type) {
	case nil:
		return scalar{text: "null"}
	case float64:
		return scalar{text: pyfloat.YAML(v)}
	case string:
		return stringScalar(v)
	}
	return scalar{text: fmt.Sprint(v)} // a bool or an integer: normal returns no other types
}

func keyScalar(key any) (scalar, error) {
	k, _ := normal(key)
	switch k.(type) {
	case string, int64, uint64:
		return scalarOf(k), nil
	}
	return scalar{}, fmt.Errorf("omegaconf: a key of type %T; want a string or an integer", key)
}
