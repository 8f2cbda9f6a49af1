// Package pylambda reads the functions of one number that Python programs write in a line, such as
// the factors of schedules in recorded runs:
//
//	f, err := pylambda.Parse("lambda epoch: 0.95 ** (epoch // 30)", nil)
//	f, err := pylambda.Parse("lambda n: max(0.1, 1 - n / T)", map[string]float64{"T": 100})
//
// It knows arithmetic, comparisons, and, or, not, "a if c else b", and functions of math. All
// numbers are float64, True and False are 1 and 0.
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

// Parse reads a Python function of one number, "lambda epoch: 0.95 ** (epoch // 30)", or its
// expression alone, "0.95 ** epoch", whose argument is the first name in it that is neither a
// function nor one of names. Those stand for numbers.
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

// number is what an expression makes of its argument.
type number func(x float64) float64

// lambda reads an expression word by word, by recursive descent along Python's precedences.
type lambda struct {
	words    []string
	names    map[string]float64
	at       int
	argument string // without the word lambda: the first name that is no function
	depth    int
	failed   bool
}

// deepest bounds the recursion.
const deepest = 1000

// scan splits the text into words. Operators of two characters are one word.
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

// next takes the next word if it is one of these.
func (p *lambda) next(words ...string) (string, bool) {
	if p.at < len(p.words) && slices.Contains(words, p.words[p.at]) {
		p.at++
		return p.words[p.at-1], true
	}
	return "", false
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
	then := p.or()
	if _, ok := p.next("if"); !ok {
		return then
	}
	condition := p.or()
	if _, ok := p.next("else"); !ok {
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

func (p *lambda) or() number {
	a := p.and()
	for {
		if _, ok := p.next("or"); !ok {
			return a
		}
		left, right := a, p.and()
		a = func(x float64) float64 {
			if v := left(x); v != 0 {
				return v
			}
			return right(x)
		}
	}
}

func (p *lambda) and() number {
	a := p.not()
	for {
		if _, ok := p.next("and"); !ok {
			return a
		}
		left, right := a, p.not()
		a = func(x float64) float64 {
			if v := left(x); v == 0 {
				return v
			}
			return right(x)
		}
	}
}

func (p *lambda) not() number {
	nots := 0
	for {
		if _, ok := p.next("not"); !ok {
			break
		}
		nots++
	}
	a := p.comparison()
	if nots == 0 {
		return a
	}
	return func(x float64) float64 { return truth((a(x) != 0) == (nots%2 == 0)) }
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// comparison reads a < b, and chains of them, each of which has to hold.
func (p *lambda) comparison() number {
	left := p.sum()
	var all []func(x float64) bool
	for {
		op, ok := p.next("<", "<=", ">", ">=", "==", "!=")
		if !ok {
			break
		}
		a, b := left, p.sum()
		all = append(all, func(x float64) bool { return compare(op, a(x), b(x)) })
		left = b
	}
	if len(all) == 0 {
		return left
	}
	return func(x float64) float64 {
		return truth(!slices.ContainsFunc(all, func(holds func(float64) bool) bool { return !holds(x) }))
	}
}

func compare(op string, a, b float64) bool {
	switch op {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "==":
		return a == b
	}
	return a != b
}

func (p *lambda) sum() number {
	return p.chain(p.product, "+", "-")
}

func (p *lambda) product() number {
	return p.chain(p.sign, "*", "/", "//", "%")
}

// chain reads operands with operators of one precedence between them, from the left.
func (p *lambda) chain(operand func() number, operators ...string) number {
	left := operand()
	for {
		op, ok := p.next(operators...)
		if !ok {
			return left
		}
		a, b := left, operand()
		left = func(x float64) float64 { return apply(op, a(x), b(x)) }
	}
}

func apply(op string, a, b float64) float64 {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	}
	rest := math.Mod(a, b) // of the sign of b in Python
	if rest != 0 && (rest < 0) != (b < 0) {
		rest += b
	}
	if op == "%" {
		return rest
	}
	return math.Round((a - rest) / b)
}

func (p *lambda) sign() number {
	if p.depth++; p.depth > deepest {
		return p.fail()
	}
	defer func() { p.depth-- }()
	switch op, _ := p.next("-", "+"); op {
	case "-":
		a := p.sign()
		return func(x float64) float64 { return -a(x) }
	case "+":
		return p.sign()
	}
	base := p.atom()
	if _, ok := p.next("**"); !ok {
		return base
	}
	exponent := p.sign()
	return func(x float64) float64 { return roundedmath.Pow(base(x), exponent(x)) }
}

func (p *lambda) atom() number {
	if _, ok := p.next("("); ok {
		inner := p.conditional()
		if _, ok := p.next(")"); !ok {
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
		if _, ok := p.next("."); !ok || p.at >= len(p.words) {
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
	if p.argument == "" && word != "lambda" && isName(word) {
		p.argument = word
		return func(x float64) float64 { return x }
	}
	return p.fail()
}

func isName(word string) bool {
	return word == "_" || word[0] >= 'a' && word[0] <= 'z' || word[0] >= 'A' && word[0] <= 'Z'
}

// call reads the arguments of a function.
func (p *lambda) call(arguments int, f func(v []float64) float64) number {
	if _, ok := p.next("("); !ok {
		return p.fail()
	}
	var list []number
	for {
		list = append(list, p.conditional())
		if _, ok := p.next(","); !ok {
			break
		}
	}
	if _, ok := p.next(")"); !ok || arguments >= 0 && len(list) != arguments {
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
