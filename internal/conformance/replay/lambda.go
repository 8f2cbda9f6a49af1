package replay

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

// parseLambda reads the body of a Python lambda over n and T, "1.0 - n / T", as far as it is sums, products, powers, max and min. Arithmetic of this kind
// reads in Go as in Python, but for the power, which is written ** there: it is tried as ^ with Go's reading of it left out by parentheses.
func parseLambda(text string, total float64) (func(n int) float64, error) {
	unsupported := spec.Unsupportedf("scheduler.lr_lambda is %q", text)
	if strings.Contains(text, "^") || strings.Contains(text, "//") {
		return nil, unsupported
	}
	expression, err := parser.ParseExpr(strings.ReplaceAll(text, "**", "^"))
	if err != nil {
		return nil, unsupported
	}
	l := lambda{values: map[string]float64{"T": total, "n": 1}}
	if l.eval(expression); l.failed {
		return nil, unsupported
	}
	return func(n int) float64 {
		l := lambda{values: map[string]float64{"T": total, "n": float64(n)}}
		return l.eval(expression)
	}, nil
}

type lambda struct {
	values map[string]float64
	failed bool
}

func (l *lambda) fail() float64 {
	l.failed = true
	return math.NaN()
}

func (l *lambda) eval(e ast.Expr) float64 {
	switch e := e.(type) {
	case *ast.BasicLit:
		if v, err := strconv.ParseFloat(e.Value, 64); err == nil && e.Kind != token.STRING {
			return v
		}
	case *ast.Ident:
		if v, ok := l.values[e.Name]; ok {
			return v
		}
	case *ast.ParenExpr:
		return l.eval(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.SUB {
			return -l.eval(e.X)
		}
	case *ast.BinaryExpr:
		return l.binary(e)
	case *ast.CallExpr:
		if name, ok := e.Fun.(*ast.Ident); ok && len(e.Args) == 2 {
			a, b := l.eval(e.Args[0]), l.eval(e.Args[1])
			switch name.Name {
			case "max":
				return math.Max(a, b)
			case "min":
				return math.Min(a, b)
			}
		}
	}
	return l.fail()
}

func (l *lambda) binary(e *ast.BinaryExpr) float64 {
	a, b := l.eval(e.X), l.eval(e.Y)
	switch e.Op {
	case token.ADD:
		return a + b
	case token.SUB:
		return a - b
	case token.MUL:
		return a * b
	case token.QUO:
		return a / b
	case token.XOR: // binds like a sum in Go, so only where both sides stand alone
		if alone(e.X) && alone(e.Y) {
			return math.Pow(a, b)
		}
	}
	return l.fail()
}

func alone(e ast.Expr) bool {
	switch e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.ParenExpr, *ast.CallExpr:
		return true
	}
	return false
}
