package expected

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/rounded"
)

// parseLambda reads a Python function of one number, such as "lambda epoch: 0.95 ** epoch": numbers, its argument, + - * / ** and brackets.
func parseLambda(text string) (func(x float64) float64, error) {
	argument, body, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "lambda "), ":")
	if !ok || strings.ContainsAny(body, "^\n\r") || strings.Contains(body, "//") || strings.Contains(body, "/*") { // which mean something else in Go
		return nil, unsupported("%q is not a Python lambda of one expression", text)
	}
	// Go has no power; ^ binds less tightly than * there, so powers are bracketed while they are read.
	expression, err := parser.ParseExpr(bracketPowers(body))
	if err != nil {
		return nil, unsupported("%q is not understood: %v", text, err)
	}
	f, ok := compile(expression, strings.TrimSpace(argument))
	if !ok {
		return nil, unsupported("%q has more in it than numbers, its argument, + - * / ** and brackets", text)
	}
	return f, nil
}

// bracketPowers writes "a ** b" as "(a ^ b)", from the right, where a and b are names, numbers or brackets.
func bracketPowers(s string) string {
	for {
		at := strings.LastIndex(s, "**")
		if at < 0 {
			return s
		}
		left, right := strings.TrimRight(s[:at], " "), strings.TrimLeft(s[at+2:], " ")
		begin, end := operandBefore(left), operandAfter(right)
		s = left[:begin] + "(" + left[begin:] + "^" + right[:end] + ")" + right[end:]
	}
}

func operandBefore(s string) int {
	depth := 0
	for i := len(s) - 1; i >= 0; i-- {
		switch c := s[i]; {
		case c == ')':
			depth++
		case c == '(':
			if depth--; depth < 0 {
				return i + 1
			}
		case depth == 0 && strings.IndexByte(" +-*/", c) >= 0:
			return i + 1
		}
	}
	return 0
}

func operandAfter(s string) int {
	depth := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return i
			}
		case depth == 0 && i > 0 && strings.IndexByte(" +-*/", c) >= 0:
			return i
		}
	}
	return len(s)
}

func compile(e ast.Expr, argument string) (func(x float64) float64, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return compile(e.X, argument)
	case *ast.Ident:
		return func(x float64) float64 { return x }, e.Name == argument
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(e.Value, 64)
		return func(float64) float64 { return v }, err == nil
	case *ast.UnaryExpr:
		f, ok := compile(e.X, argument)
		return func(x float64) float64 { return -f(x) }, ok && e.Op == token.SUB
	case *ast.BinaryExpr:
		a, ok := compile(e.X, argument)
		b, also := compile(e.Y, argument)
		switch e.Op {
		case token.ADD:
			return func(x float64) float64 { return a(x) + b(x) }, ok && also
		case token.SUB:
			return func(x float64) float64 { return a(x) - b(x) }, ok && also
		case token.MUL:
			return func(x float64) float64 { return a(x) * b(x) }, ok && also
		case token.QUO:
			return func(x float64) float64 { return a(x) / b(x) }, ok && also
		case token.XOR:
			return func(x float64) float64 { return rounded.Pow(a(x), b(x)) }, ok && also
		}
	}
	return nil, false
}
