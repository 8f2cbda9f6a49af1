package jinja

import "fmt"

// The limits of a template. A conversation of a megabyte stays far below them.
const (
	maxSource  = 1 << 20   // bytes of a template
	maxNesting = 200       // of expressions and blocks in its source
	maxDepth   = 1500      // of evaluations within each other, calls of macros included
	maxMemory  = 256 << 20 // bytes of all strings and lists that a rendering makes
	maxFuel    = 1 << 31   // what a rendering may cost: a step is stepCost, a byte that is looked at 1
	stepCost   = 64
	maxRange   = 100000 // MAX_RANGE of jinja2's sandbox
	maxData    = 500    // nesting of values that are written or compared
)

// Error is what is wrong with a template, or with what it was given. Kind is the name of Python's
// exception: TemplateSyntaxError, UndefinedError, TypeError; TemplateError for raise_exception;
// NotSupported and LimitError where it is this package that refuses.
type Error struct {
	Line    int // of the template, counted from 1; 0: none
	Kind    string
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Kind + ": " + e.Message
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Kind, e.Message)
}

// fail ends parsing and rendering: catch turns it into an error.
func fail(kind, format string, args ...any) {
	panic(&Error{Kind: kind, Message: fmt.Sprintf(format, args...)})
}

// catch sets err to what fail was told, with the line where it happened. Other panics go on.
func catch(err *error, line *int) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		if r.Line == 0 {
			r.Line = *line
		}
		*err = r
	default:
		panic(r)
	}
}

// budget is what is left of a rendering.
type budget struct {
	fuel, memory, depth int
}

// spend pays for work.
func (b *budget) spend(n int) {
	if b.fuel -= n; b.fuel < 0 || n < 0 {
		fail("LimitError", "the template does not come to an end: it takes more than %d steps", maxFuel/stepCost)
	}
}

// alloc pays for bytes before they are made.
func (b *budget) alloc(n int) {
	b.spend(n)
	if b.memory -= n; b.memory < 0 {
		fail("LimitError", "the template makes more than %d MiB of text and lists", maxMemory>>20)
	}
}

// enter counts what is evaluated within something else; leave is its end.
func (b *budget) enter() {
	b.spend(stepCost)
	if b.depth++; b.depth > maxDepth {
		fail("RecursionError", "the template calls itself, or nests, more than %d deep", maxDepth)
	}
}

func (b *budget) leave() { b.depth-- }
