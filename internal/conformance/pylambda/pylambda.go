// Package pylambda parses one-line Python functions of one number, such as the factors of schedules
// in recorded runs:
//
//	f, err := pylambda.Parse("lambda epoch: 0.95 ** (epoch // 30)", nil)
//	f, err := pylambda.Parse("lambda n: max(0.1, 1 - n / T)", map[string]float64{"T": 100})
//
// It supports arithmetic, comparisons, and, or, not, "a if c else b", and functions of math. All
// numbers are float64; True and False are 1 and 0.
package pylambda

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/scanner"

	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// Parse parses a Python function of one number, such as "lambda epoch: 0.95 ** (epoch // 30)", or
// only its expression, such as "0.95 ** epoch". The argument of an expression is its first name
// that is neither a function nor in names. names holds the values of constants.
func Parse(text string, names map[string]float64) (func(x float64) float64, error) {
	p := &lambda{names: names}
	body := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(body, "lambda "); ok {
		if p.argument, body, ok = strings.Cut(rest, ":"); !ok {
			return nil, fmt.Errorf("%q is not a Python lambda: it has no colon", text)
		}
		p.argument = strings.TrimSpace(p.argument)
	}
	p.scan(body)
	f := p.conditional()
	if p.failed || p.at < len(p.words) || p.argument == "" {
		return nil, fmt.Errorf("%q has more in it than one argument, numbers, operators and functions of math, or is "+
			"no Python", text)
	}
	return f, nil
}

// number is a compiled expression, as a function of the argument.
type number func(x float64) float64

// lambda is a recursive-descent parser for expressions with Python's precedences.
type lambda struct {
	words    []string
	names    map[string]float64
	at       int
	argument string // without the keyword lambda: the first name that is not a function
	depth    int
	failed   bool
}

// deepest limits the recursion.
const deepest = 1000

// The precedences of operators, lowest first.
const (
	disjunction = iota + 1
	conjunction
	negation
	comparison
	sum
	product
	sign
	power
)

// operator is a binary operator.
type operator struct {
	precedence int
	apply      func(a, b number, x float64) float64
}

var operators = map[string]operator{
	"or": {disjunction, func(a, b number, x float64) float64 {
		if v := a(x); v != 0 {
			return v
		}
		return b(x)
	}},
	"and": {conjunction, func(a, b number, x float64) float64 {
		if v := a(x); v == 0 {
			return v
		}
		return b(x)
	}},
	"<":  {comparison, of(func(a, b float64) float64 { return truth(a < b) })},
	"<=": {comparison, of(func(a, b float64) float64 { return truth(a <= b) })},
	">":  {comparison, of(func(a, b float64) float64 { return truth(a > b) })},
	">=": {comparison, of(func(a, b float64) float64 { return truth(a >= b) })},
	"==": {comparison, of(func(a, b float64) float64 { return truth(a == b) })},
	"!=": {comparison, of(func(a, b float64) float64 { return truth(a != b) })},
	"+":  {sum, of(func(a, b float64) float64 { return a + b })},
	"-":  {sum, of(func(a, b float64) float64 { return a - b })},
	"*":  {product, of(func(a, b float64) float64 { return a * b })},
	"/":  {product, of(func(a, b float64) float64 { return a / b })},
	"//": {product, of(func(a, b float64) float64 { return math.Round((a - remainder(a, b)) / b) })},
	"%":  {product, of(remainder)},
	"**": {power, of(roundedmath.Pow)},
}

// of returns an operator that applies f to the values of both operands.
func of(f func(a, b float64) float64) func(a, b number, x float64) float64 {
	return func(a, b number, x float64) float64 { return f(a(x), b(x)) }
}

// remainder is Python's %, whose result has the sign of b.
func remainder(a, b float64) float64 {
	rest := math.Mod(a, b)
	if rest != 0 && (rest < 0) != (b < 0) {
		rest += b
	}
	return rest
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// scan splits the text into tokens. Operators of two characters are one token.
func (p *lambda) scan(text string) {
	var s scanner.Scanner
	s.Init(strings.NewReader(text))
	s.Mode = scanner.ScanIdents | scanner.ScanFloats
	s.Error = func(*scanner.Scanner, string) { p.failed = true }
	end := -1
	for t := s.Scan(); t != scanner.EOF; t = s.Scan() {
		word := s.TokenText()
		if n := len(p.words); n > 0 && s.Offset == end && slices.Contains([]string{"**", "//", "<=", ">=", "==", "!="},
			p.words[n-1]+word) {
			p.words[n-1] += word
		} else {
			p.words = append(p.words, word)
		}
		end = s.Offset + len(word)
	}
}

// next consumes the next token if it is this one.
func (p *lambda) next(word string) bool {
	if p.at < len(p.words) && p.words[p.at] == word {
		p.at++
		return true
	}
	return false
}

func (p *lambda) fail() number {
	p.failed = true
	return func(float64) float64 { return math.NaN() }
}

func (p *lambda) conditional() number {
	if p.depth++; p.depth > deepest {
		return p.fail()
	}
	defer func() { p.depth-- }()
	then := p.expression(disjunction)
	if !p.next("if") {
		return then
	}
	condition := p.expression(disjunction)
	if !p.next("else") {
		return p.fail()
	}
	otherwise := p.conditional()
	return func(x float64) float64 {
		if condition(x) != 0 {
			return then(x)
		}
		return otherwise(x)
	}
}

// expression parses operands joined by operators of at least the given precedence,
// left-associatively. In a chain of comparisons, all must hold.
func (p *lambda) expression(loosest int) number {
	if p.depth++; p.depth > deepest {
		return p.fail()
	}
	defer func() { p.depth-- }()
	left := p.operand(loosest)
	var compared number // right operand of the comparison in left
	for p.at < len(p.words) {
		op, ok := operators[p.words[p.at]]
		if !ok || op.precedence < loosest {
			break
		}
		p.at++
		tighter := op.precedence + 1
		if op.precedence == power { // right-associative; its right operand may have a sign
			tighter = sign
		}
		a, before, b := left, compared, p.expression(tighter)
		left = func(x float64) float64 { return op.apply(a, b, x) }
		if compared = nil; op.precedence != comparison {
			continue
		}
		if compared = b; before != nil {
			left = func(x float64) float64 { return truth(a(x) != 0 && op.apply(before, b, x) != 0) }
		}
	}
	return left
}

// operand parses an operand with its unary operators.
func (p *lambda) operand(loosest int) number {
	switch {
	case loosest <= negation && p.next("not"):
		a := p.expression(negation)
		return func(x float64) float64 { return truth(a(x) == 0) }
	case loosest <= sign && p.next("-"):
		a := p.expression(sign)
		return func(x float64) float64 { return -a(x) }
	case loosest <= sign && p.next("+"):
		return p.expression(sign)
	}
	return p.atom()
}

func (p *lambda) atom() number {
	if p.next("(") {
		inner := p.conditional()
		if !p.next(")") {
			return p.fail()
		}
		return inner
	}
	if p.at >= len(p.words) {
		return p.fail()
	}
	word := p.words[p.at]
	p.at++
	if v, err := strconv.ParseFloat(word, 64); err == nil && strings.ContainsRune(".0123456789", rune(word[0])) {
		return func(float64) float64 { return v }
	}
	if word == p.argument {
		return func(x float64) float64 { return x }
	}
	if v, ok := p.names[word]; ok {
		return func(float64) float64 { return v }
	}
	if word == "math" || word == "np" || word == "numpy" {
		if !p.next(".") || p.at >= len(p.words) {
			return p.fail()
		}
		word = p.words[p.at]
		p.at++
		if word == "pi" {
			return func(float64) float64 { return math.Pi }
		}
	}
	if f, ok := functions[word]; ok {
		return p.call(f.arguments, f.f)
	}
	if p.argument == "" && isName(word) && !slices.Contains(keywords, word) {
		p.argument = word
		return func(x float64) float64 { return x }
	}
	return p.fail()
}

// keywords are names that cannot be an argument.
var keywords = []string{"lambda", "and", "or", "not", "if", "else"}

func isName(word string) bool {
	return word == "_" || word[0] >= 'a' && word[0] <= 'z' || word[0] >= 'A' && word[0] <= 'Z'
}

// call parses the arguments of a function.
func (p *lambda) call(arguments int, f func(v []float64) float64) number {
	if !p.next("(") {
		return p.fail()
	}
	var list []number
	for {
		list = append(list, p.conditional())
		if !p.next(",") {
			break
		}
	}
	if !p.next(")") || arguments >= 0 && len(list) != arguments {
		return p.fail()
	}
	return func(x float64) float64 {
		v := make([]float64, len(list))
		for i, a := range list {
			v[i] = a(x)
		}
		return f(v)
	}
}

// functions are the Python functions that are known, by number of arguments; -1 means one or more.
var functions = map[string]struct {
	arguments int
	f         func(v []float64) float64
}{
	"min": {-1, slices.Min[[]float64]}, "max": {-1, slices.Max[[]float64]},
	"abs":   {1, func(v []float64) float64 { return math.Abs(v[0]) }},
	"float": {1, func(v []float64) float64 { return v[0] }},
	"int":   {1, func(v []float64) float64 { return math.Trunc(v[0]) }},
	"pow":   {2, func(v []float64) float64 { return roundedmath.Pow(v[0], v[1]) }},
	"exp":   {1, func(v []float64) float64 { return math.Exp(v[0]) }},
	"log":   {1, func(v []float64) float64 { return math.Log(v[0]) }},
	"sqrt":  {1, func(v []float64) float64 { return math.Sqrt(v[0]) }},
	"sin":   {1, func(v []float64) float64 { return math.Sin(v[0]) }},
	"cos":   {1, func(v []float64) float64 { return roundedmath.Cos(v[0]) }},
	"floor": {1, func(v []float64) float64 { return math.Floor(v[0]) }},
	"ceil":  {1, func(v []float64) float64 { return math.Ceil(v[0]) }},
}
