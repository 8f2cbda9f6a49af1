package jinja

import "fmt"

// The limits of a template. Even a conversation of a megabyte stays far below them.
const (
	maxSource  = 1 << 20   // bytes of a template
	maxNesting = 200       // nesting of expressions and blocks in the source
	maxDepth   = 1500      // nesting of evaluations, including calls of macros
	maxMemory  = 256 << 20 // bytes of all strings and lists made by a rendering
	maxFuel    = 1 << 31   // work of a rendering: stepCost for a step, 1 for a byte that is examined
	stepCost   = 64
	maxRange   = 100000 // MAX_RANGE of jinja2's sandbox
	maxData    = 500    // nesting of values that are written or compared
)

// Error is an error in a template or its input. Kind is the name of Python's exception, such as
// TemplateSyntaxError, UndefinedError or TypeError; TemplateError for raise_exception; or
// NotSupported and LimitError for this package's own limits.
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

// fail aborts parsing or rendering with a panic that catch turns into an error.
func fail(kind, format string, args ...any) {
	panic(&Error{Kind: kind, Message: fmt.Sprintf(format, args...)})
}

// catch recovers a panic of fail and sets err to its error, with the line where it happened. It
// does not recover other panics.
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

// budget is what a rendering has left of its limits.
type budget struct {
	fuel, memory, depth int
}

// spend charges n units of work.
func (b *budget) spend(n int) {
	if b.fuel -= n; b.fuel < 0 || n < 0 {
		fail("LimitError", "the template does not come to an end: it takes more than %d steps", maxFuel/stepCost)
	}
}

// alloc charges n bytes before they are allocated.
func (b *budget) alloc(n int) {
	b.spend(n)
	if b.memory -= n; b.memory < 0 {
		fail("LimitError", "the template makes more than %d MiB of text and lists", maxMemory>>20)
	}
}

// enter begins a nested evaluation and charges a step; leave ends it.
func (b *budget) enter() {
	b.spend(stepCost)
	if b.depth++; b.depth > maxDepth {
		fail("RecursionError", "the template calls itself, or nests, more than %d deep", maxDepth)
	}
}

func (b *budget) leave() { b.depth-- }
