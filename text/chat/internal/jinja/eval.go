package jinja

import (
	"math"
	"math/bits"
	"slices"
	"strings"
)

// cost returns how many elements of a value an operation may look at.
func cost(v Value) int {
	switch v := v.(type) {
	case *List:
		return len(v.items)
	case *Dict:
		return len(v.keys)
	}
	return size(v)
}

// size returns about how many bytes a value takes, without the values that it contains.
func size(v Value) int {
	if s, ok := asString(v); ok {
		return len(s)
	}
	switch v := v.(type) {
	case *List:
		return 16 * len(v.items)
	case *Dict:
		return 32 * len(v.keys)
	}
	return 0
}

// made charges the memory of a value that an operation made, and returns the value.
func (r *renderer) made(v Value) Value {
	r.alloc(size(v))
	return v
}

func (r *renderer) eval(e expr, s *scope) Value {
	r.enter()
	defer r.leave()
	switch e := e.(type) {
	case *constant:
		return e.value
	case *name:
		return s.lookup(e.name)
	case *tuple:
		return r.made(newTuple(r.evalAll(e.items, s)...))
	case *list:
		return r.made(NewList(r.evalAll(e.items, s)...))
	case *dict:
		d := NewDict()
		for i, key := range e.keys {
			d.Set(r.eval(key, s), r.eval(e.values[i], s))
		}
		return r.made(d)
	case *getAttr:
		return r.attribute(r.eval(e.of, s), e.name)
	case *getItem:
		of := r.eval(e.of, s)
		r.spend(cost(of))
		if sl, ok := e.index.(*slice); ok {
			return r.made(r.slice(of, r.optional(sl.start, s), r.optional(sl.stop, s), r.optional(sl.step, s)))
		}
		return r.item(of, r.eval(e.index, s))
	case *call:
		of := r.eval(e.of, s)
		return r.made(r.call(of, r.bind(e.args, s)))
	case *filter:
		return r.filtered(e, nil, s)
	case *test:
		v := r.eval(e.of, s)
		r.spend(cost(v))
		return r.test(e.name, v, r.bind(e.args, s))
	case *not:
		return !truth(r.eval(e.of, s))
	case *unary:
		return r.unary(e.op, r.eval(e.of, s))
	case *binary:
		left := r.eval(e.left, s)
		return r.made(r.binary(e.op, left, r.eval(e.right, s)))
	case *concat:
		w := &writer{budget: &r.budget}
		for _, item := range e.items {
			w.write(r.str(r.eval(item, s)))
		}
		return w.String()
	case *logical:
		left := r.eval(e.left, s)
		if truth(left) != e.and {
			return left
		}
		return r.eval(e.right, s)
	case *compare:
		return r.compare(e, s)
	case *conditional:
		switch {
		case truth(r.eval(e.test, s)):
			return r.eval(e.yes, s)
		case e.no != nil:
			return r.eval(e.no, s)
		}
		return undefinedf("the inline if-expression evaluated to false and no else section was defined.")
	}
	fail("TemplateSyntaxError", "an assignment's target where a value is wanted")
	return nil
}

func (r *renderer) evalAll(items []expr, s *scope) []Value {
	values := make([]Value, len(items))
	for i, item := range items {
		values[i] = r.eval(item, s)
	}
	return values
}

// optional evaluates a part of a slice expression, which may be nil.
func (r *renderer) optional(e expr, s *scope) Value {
	if e == nil {
		return nil
	}
	return r.eval(e, s)
}

// filtered evaluates a chain of filters. If the chain begins without an expression, in is the input
// of its first filter: the text of a block.
func (r *renderer) filtered(e expr, in Value, s *scope) Value {
	f, ok := e.(*filter)
	if !ok {
		if e == nil {
			return in
		}
		return r.eval(e, s)
	}
	r.enter()
	defer r.leave()
	v := r.filtered(f.of, in, s)
	r.spend(cost(v))
	return r.made(r.filter(f.name, v, r.bind(f.args, s)))
}

// callArgs holds the values of arguments.
type callArgs struct {
	positional []Value
	names      []string
	values     []Value
}

func (r *renderer) bind(a arguments, s *scope) *callArgs {
	b := &callArgs{positional: r.evalAll(a.positional, s)}
	for _, k := range a.keywords {
		b.names, b.values = append(b.names, k.name), append(b.values, r.eval(k.value, s))
	}
	if a.star != nil {
		items := r.iterate(r.eval(a.star, s))
		r.alloc(16 * len(items))
		b.positional = append(b.positional, items...)
	}
	if a.starStar != nil {
		v := r.eval(a.starStar, s)
		d, ok := v.(*Dict)
		if !ok {
			fail("TypeError", "argument after ** must be a mapping, not %s", typeName(v))
		}
		r.alloc(size(d))
		for i, key := range d.keys {
			name, ok := asString(key)
			if !ok {
				fail("TypeError", "keywords must be strings")
			}
			b.names, b.values = append(b.names, name), append(b.values, d.values[i])
		}
	}
	for i, name := range b.names {
		if slices.Contains(b.names[:i], name) {
			fail("TypeError", "got multiple values for keyword argument '%s'", name)
		}
	}
	return b
}

// absent is the value of an argument that was not given.
type absent struct{}

// to binds the arguments to parameters and returns their values in the order of params; those not
// given are absent.
func (b *callArgs) to(function string, params ...string) []Value {
	values := make([]Value, len(params))
	for i := range values {
		values[i] = absent{}
	}
	if len(b.positional) > len(params) {
		fail("TypeError", "%s takes at most %d arguments (%d given)", function, len(params), len(b.positional))
	}
	copy(values, b.positional)
	for i, name := range b.names {
		at := slices.Index(params, name)
		if at < 0 {
			fail("TypeError", "%s got an unexpected keyword argument '%s'", function, name)
		}
		if at < len(b.positional) {
			fail("TypeError", "%s got multiple values for argument '%s'", function, name)
		}
		values[at] = b.values[i]
	}
	return values
}

// or returns v, or other if v is absent.
func or(v, other Value) Value {
	if _, ok := v.(absent); ok {
		return other
	}
	return v
}

func needString(function string, v Value) string {
	s, ok := asString(v)
	if !ok {
		refuse(function, v, "a string")
	}
	return s
}

func needInt(function string, v Value) int {
	n, ok := asInt(v)
	if !ok || n != int64(int(n)) {
		refuse(function, v, "an integer")
	}
	return int(n)
}

// refuse fails with the error about an argument of the wrong type.
func refuse(function string, v Value, want string) {
	switch v := v.(type) {
	case *undefined:
		v.fail()
	case absent:
		fail("TypeError", "%s: an argument is missing, %s", function, want)
	}
	fail("TypeError", "%s wants %s, not %s", function, want, typeName(v))
}

func (r *renderer) call(of Value, a *callArgs) Value {
	switch f := of.(type) {
	case *undefined:
		f.fail()
	case *function:
		return f.call(r, a)
	case *macro:
		return r.callMacro(f, a)
	case *loop:
		fail("TypeError", "The loop must have the 'recursive' marker to be called recursively.")
	}
	fail("TypeError", "'%s' object is not callable", typeName(of))
	return nil
}

func (r *renderer) compare(e *compare, s *scope) Value {
	left := r.eval(e.first, s)
	for _, op := range e.ops {
		right := r.eval(op.of, s)
		if !r.compareTwo(op.op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *renderer) compareTwo(op string, left, right Value) bool {
	switch op {
	case "==":
		return r.equal(left, right, 0)
	case "!=":
		return !r.equal(left, right, 0)
	case "<":
		return r.less(left, right, op, 0)
	case ">":
		return r.less(right, left, op, 0)
	case "<=":
		return r.less(left, right, op, 0) || r.equal(left, right, 0)
	case ">=":
		return r.less(right, left, op, 0) || r.equal(left, right, 0)
	case "in":
		return r.contains(right, left)
	default:
		return !r.contains(right, left)
	}
}

func (r *renderer) unary(op string, v Value) Value {
	if u, ok := v.(*undefined); ok {
		u.fail()
	}
	if i, ok := asInt(v); ok {
		if op == "+" {
			return i
		}
		if i == math.MinInt64 {
			overflow()
		}
		return -i
	}
	f, ok := v.(float64)
	if !ok {
		fail("TypeError", "bad operand type for unary %s: '%s'", op, typeName(v))
	}
	if op == "-" {
		f = -f
	}
	return f
}

func overflow() { fail("NotSupported", "an integer that does not fit into 64 bits") }

func (r *renderer) binary(op string, left, right Value) Value {
	if s, ok := asString(left); ok && op == "%" {
		return r.format(s, right)
	}
	for _, v := range []Value{left, right} {
		if u, ok := v.(*undefined); ok {
			u.fail()
		}
	}
	switch op {
	case "+":
		if v := r.add(left, right); v != nil {
			return v
		}
	case "*":
		if v := r.repeat(left, right); v != nil {
			return v
		}
		if v := r.repeat(right, left); v != nil {
			return v
		}
	}
	if i, ok := asInt(left); ok {
		if j, ok := asInt(right); ok {
			return integerOp(op, i, j)
		}
	}
	x, ok := asFloat(left)
	y, ok2 := asFloat(right)
	if !ok || !ok2 {
		if _, ok := asString(left); ok && op == "+" {
			fail("TypeError", `can only concatenate str (not "%s") to str`, typeName(right))
		}
		if l, ok := left.(*List); ok && op == "+" {
			fail("TypeError", `can only concatenate %s (not "%s") to %s`, l.kind, typeName(right), l.kind)
		}
		fail("TypeError", "unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(left), typeName(right))
	}
	return floatOp(op, x, y)
}

// add concatenates two strings, lists or tuples; nil for other values.
func (r *renderer) add(left, right Value) Value {
	if a, ok := asString(left); ok {
		if b, ok := asString(right); ok {
			_, safeA := left.(markup)
			_, safeB := right.(markup)
			if safeA && !safeB {
				b = escape(b)
			} else if safeB && !safeA {
				a = escape(a)
			}
			if safeA || safeB {
				return markup(a + b)
			}
			return a + b
		}
	}
	if a, ok := left.(*List); ok && (a.kind == kindList || a.kind == kindTuple) {
		if b, ok := right.(*List); ok && b.kind == a.kind {
			return &List{kind: a.kind, items: slices.Concat(a.items, b.items)}
		}
	}
	return nil
}

// repeat returns a string, list or tuple repeated times times; nil for other values.
func (r *renderer) repeat(of, times Value) Value {
	n, ok := asInt(times)
	if !ok {
		return nil
	}
	n = max(n, 0)
	check := func(size int) {
		if size > 0 && n > maxMemory/int64(size) {
			r.alloc(maxMemory + 1)
		}
		r.alloc(int(n) * size)
	}
	switch v := of.(type) {
	case string:
		check(len(v))
		if v == "" {
			return ""
		}
		return strings.Repeat(v, int(n))
	case markup:
		check(len(v))
		if v == "" {
			return v
		}
		return markup(strings.Repeat(string(v), int(n)))
	case *List:
		if v.kind != kindList && v.kind != kindTuple {
			return nil
		}
		check(16 * len(v.items))
		l := &List{kind: v.kind}
		if len(v.items) > 0 {
			l.items = slices.Repeat(v.items, int(n))
		}
		return l
	}
	return nil
}

func integerOp(op string, i, j int64) Value {
	switch op {
	case "+":
		if sum := i + j; (sum > i) == (j > 0) {
			return sum
		}
	case "-":
		if diff := i - j; (diff < i) == (j > 0) {
			return diff
		}
	case "*":
		if product, ok := multiply(i, j); ok {
			return product
		}
	case "/":
		if j == 0 {
			fail("ZeroDivisionError", "division by zero")
		}
		return float64(i) / float64(j)
	case "//", "%":
		quotient, rest := divide(i, j)
		if op == "//" {
			return quotient
		}
		return rest
	case "**":
		if j < 0 {
			return floatOp(op, float64(i), float64(j))
		}
		return power(i, j)
	}
	overflow()
	return nil
}

// divide is Python's // and %: the quotient is rounded down, so that the remainder has the sign of
// the divisor.
func divide(i, j int64) (quotient, rest int64) {
	if j == 0 {
		fail("ZeroDivisionError", "integer division or modulo by zero")
	}
	if j == -1 && i == math.MinInt64 {
		overflow()
	}
	quotient, rest = i/j, i%j
	if rest != 0 && (rest < 0) != (j < 0) {
		quotient, rest = quotient-1, rest+j
	}
	return quotient, rest
}

func power(i, j int64) int64 {
	switch {
	case j == 0:
		return 1
	case i == 0 || i == 1:
		return i
	case i == -1:
		return 1 - 2*(j%2)
	}
	v := int64(1)
	for range j { // at most 63 times
		product, ok := multiply(v, i)
		if !ok {
			overflow()
		}
		v = product
	}
	return v
}

func multiply(i, j int64) (int64, bool) {
	high, low := bits.Mul64(magnitude(i), magnitude(j))
	if high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	if (i < 0) != (j < 0) {
		return -int64(low), true
	}
	return int64(low), true
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

func floatOp(op string, x, y float64) Value {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		if x == 0 && y < 0 {
			fail("ZeroDivisionError", "0.0 cannot be raised to a negative power")
		}
		if x < 0 && y != math.Trunc(y) {
			fail("NotSupported", "a complex number")
		}
		return math.Pow(x, y)
	}
	if y == 0 {
		fail("ZeroDivisionError", "float division by zero")
	}
	if op == "/" {
		return x / y
	}
	rest := math.Mod(x, y)
	if rest != 0 && (rest < 0) != (y < 0) {
		rest += y
	}
	if op == "//" {
		return math.Round((x - rest) / y)
	}
	if rest == 0 {
		rest = math.Copysign(0, y)
	}
	return rest
}
