package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An exported struct also has the exported methods and fields of the unexported structs that it
// embeds, and of those that these embed.

// structs are the structs that a package declares, by their names.
type structs map[string]*declaredStruct

type declaredStruct struct {
	name       *ast.TypeSpec
	fields     []*ast.Field
	methods    []*ast.FuncDecl
	parameters []string // names of the type parameters
}

func structsOf(decls []ast.Decl) structs {
	all := structs{}
	for _, d := range decls {
		if d, ok := d.(*ast.GenDecl); ok {
			for _, s := range d.Specs {
				all.add(s)
			}
		}
	}
	for _, d := range decls {
		if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
			if s := all[typeName(m.Recv.List[0].Type).name]; s != nil {
				s.methods = append(s.methods, m)
			}
		}
	}
	return all
}

func (all structs) add(s ast.Spec) {
	t, ok := s.(*ast.TypeSpec)
	if !ok {
		return
	}
	if body, ok := t.Type.(*ast.StructType); ok {
		d := &declaredStruct{name: t, fields: body.Fields.List}
		if t.TypeParams != nil {
			for _, p := range t.TypeParams.List {
				for _, n := range p.Names {
					d.parameters = append(d.parameters, n.Name)
				}
			}
		}
		all[t.Name.Name] = d
	}
}

// named is a type of the package as a receiver or an embedded field names it.
type named struct {
	name      string // empty: it is of another package
	pointer   bool
	arguments []ast.Expr
}

func typeName(e ast.Expr) (t named) {
	if star, ok := e.(*ast.StarExpr); ok {
		e, t.pointer = star.X, true
	}
	switch generic := e.(type) {
	case *ast.IndexExpr:
		e, t.arguments = generic.X, []ast.Expr{generic.Index}
	case *ast.IndexListExpr:
		e, t.arguments = generic.X, generic.Indices
	}
	if ident, ok := e.(*ast.Ident); ok {
		t.name = ident.Name
	}
	return t
}

// within is a struct in the place where it is embedded.
type within struct {
	*declaredStruct
	pointer   bool // it is embedded as a pointer, or in a struct that is
	arguments []string
}

// promoted returns the lines for what the exported structs have of unexported ones.
func (all structs) promoted(text func(ast.Node) string) (lines []string) {
	for name, s := range all {
		if !ast.IsExported(name) {
			continue
		}
		hidden := map[string]bool{} // by the fields and methods of the structs around
		level := []within{{s, false, s.parameters}}
		for outermost := true; len(level) > 0; outermost = false {
			var inner []within
			for _, w := range level {
				if !outermost {
					lines = append(lines, w.linesOf(s, hidden, text)...)
				}
				inner = append(inner, all.embeddedIn(w, text)...)
			}
			for _, w := range level {
				w.hide(hidden)
			}
			level = inner
		}
	}
	return lines
}

// embeddedIn returns the unexported structs that a struct embeds.
func (all structs) embeddedIn(w within, text func(ast.Node) string) (list []within) {
	for _, f := range w.fields {
		t := typeName(f.Type)
		inner := all[t.name]
		if len(f.Names) > 0 || inner == nil || ast.IsExported(t.name) {
			continue
		}
		var arguments []string
		for _, a := range t.arguments {
			arguments = append(arguments, replaced(a, w.parameters, w.arguments, text))
		}
		list = append(list, within{inner, w.pointer || t.pointer, arguments})
	}
	return list
}

// linesOf returns the lines for what the struct gives to the one around it.
func (w within) linesOf(around *declaredStruct, hidden map[string]bool, text func(ast.Node) string) (lines []string) {
	receiver := around.name.Name.Name
	if len(around.parameters) > 0 {
		receiver += "[" + strings.Join(around.parameters, ", ") + "]"
	}
	for _, m := range w.methods {
		if !m.Name.IsExported() || hidden[m.Name.Name] {
			continue
		}
		own := typeName(m.Recv.List[0].Type)
		var names []string
		for _, a := range own.arguments {
			names = append(names, text(a))
		}
		of := receiver
		if own.pointer && !w.pointer {
			of = "*" + of
		}
		lines = append(lines, methodLine(of, m.Name.Name, replaced(m.Type, names, w.arguments, text)))
	}
	for _, f := range w.fields {
		for _, n := range f.Names {
			if n.IsExported() && !hidden[n.Name] {
				lines = append(lines, fieldLine(around.name.Name.Name, n.Name,
					replaced(f.Type, w.parameters, w.arguments, text)))
			}
		}
	}
	return lines
}

// hide notes the names of the fields and methods of the struct.
func (w within) hide(hidden map[string]bool) {
	for _, m := range w.methods {
		hidden[m.Name.Name] = true
	}
	for _, f := range w.fields {
		for _, n := range f.Names {
			hidden[n.Name] = true
		}
	}
}

// replaced is the text of a type with arguments in place of type parameters.
func replaced(e ast.Expr, parameters, arguments []string, text func(ast.Node) string) string {
	var names []*ast.Ident
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			return false
		case *ast.Ident:
			names = append(names, n)
		}
		return true
	})
	for _, n := range names {
		before := n.Name
		defer func() { n.Name = before }()
		if i := slices.Index(parameters, before); i >= 0 {
			n.Name = arguments[i]
		}
	}
	return text(e)
}

func TestPromotedMethodsAndFieldsAreListed(t *testing.T) {
	const source = `package p

type Step[S, B any] struct {
	core
	*part[B, []S]
	name string
}

type core struct {
	deep
	Shown int
	name  string
}

func (c *core) Save(dir string) error { return nil }
func (c core) Len() int               { return 0 }
func (c *core) Train() {}
func (c *core) hidden() {}

type deep struct{}

func (deep) Len() int { return 0 }
func (*deep) Deepest(x core) {}

type part[X, Y any] struct{ Values map[string]X }

func (p *part[T, U]) Pairs(x []T, s other.T) (U, error) { return nil, nil }

func (s *Step[S, B]) Train() {}

type Plain struct{ io.Reader }
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{
		"method (*Step[S, B]) Save(dir string) error", "method (Step[S, B]) Len() int", "type Step, Shown int",
		"method (*Step[S, B]) Deepest(x core)",
		"type Step, Values map[string]B", "method (Step[S, B]) Pairs(x []B, s other.T) ([]S, error)",
	}, structsOf(f.Decls).promoted(textIn(fset)))
}
