package torch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// handsOn lists the functions that return a handle to their caller, who keeps its owner alive, with
// the reason why that is safe.
var handsOn = map[string]string{
	"optional":        "gives the handle to its caller",
	"pointers":        "gives the handles to its caller",
	"required":        "gives the handles to its caller",
	"box":             "CallAny keeps all arguments alive",
	"NewList":         "the List holds its tensors",
	"pointer":         "gives the handle to its caller",
	"filled":          "gives the handle to its caller",
	"Rand":            "TensorOptions.make keeps the generator alive",
	"Randn":           "TensorOptions.make keeps the generator alive",
	"RandInt":         "TensorOptions.make keeps the generator alive",
	"RandPerm":        "TensorOptions.make keeps the generator alive",
	"memory":          "gives the elements to its caller",
	"Handle":          "gives the handle to its caller",
	"GeneratorHandle": "gives the handle to its caller",
}

// borrowed returns the owners whose handles f passes to C, as the text of their expressions, and
// where it does so.
func borrowed(f *ast.FuncDecl) map[string]token.Pos {
	owners := map[string]token.Pos{}
	note := func(e ast.Expr, at token.Pos) {
		if text := types.ExprString(e); owners[text] < at {
			owners[text] = at
		}
	}
	statements := map[ast.Expr]bool{} // a call whose result is not used only checks
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			statements[n.X] = true
		case *ast.CallExpr:
			if statements[n] {
				return true
			}
			switch fun := n.Fun.(type) {
			case *ast.SelectorExpr:
				switch fun.Sel.Name {
				case "ptr", "optional", "pointer", "filled":
					note(fun.X, n.Pos())
				}
				if pkg, ok := fun.X.(*ast.Ident); ok && pkg.Name == "cgotorch" {
					for _, a := range n.Args {
						if c, ok := a.(*ast.SelectorExpr); ok && c.Sel.Name == "c" {
							if h, ok := c.X.(*ast.SelectorExpr); ok && h.Sel.Name == "h" {
								note(h.X, n.Pos())
							}
						}
					}
				}
			case *ast.Ident:
				if (fun.Name == "pointers" || fun.Name == "required") && len(n.Args) == 2 {
					note(n.Args[1], n.Pos())
				}
			}
		}
		return true
	})
	return owners
}

// keptAlive returns what f keeps alive, and up to where. A deferred call keeps it alive until the
// end.
func keptAlive(f *ast.FuncDecl) map[string]token.Pos {
	kept := map[string]token.Pos{}
	deferred := map[*ast.CallExpr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if d, ok := n.(*ast.DeferStmt); ok {
			deferred[d.Call] = true
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || types.ExprString(call.Fun) != "runtime.KeepAlive" {
			return true
		}
		at := call.Pos()
		if deferred[call] {
			at = f.End()
		}
		values := []ast.Expr{call.Args[0]}
		if list, ok := call.Args[0].(*ast.CompositeLit); ok {
			values = list.Elts
		}
		for _, v := range values {
			kept[strings.TrimSuffix(types.ExprString(v), ".h")] = at
		}
		return true
	})
	return kept
}

// unkept returns the owners that the garbage collector could free while C uses their handles in f.
func unkept(f *ast.FuncDecl) (names []string) {
	kept := keptAlive(f)
	for owner, at := range borrowed(f) {
		if kept[owner] < at {
			names = append(names, owner)
		}
	}
	return names
}

func TestEveryTensorArgumentIsKeptAliveDuringItsCall(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	cuda, err := filepath.Glob("cuda/*.go")
	require.NoError(t, err)
	checked := 0
	for _, name := range append(names, cuda...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || handsOn[f.Name.Name] != "" {
				continue
			}
			checked += len(borrowed(f))
			for _, owner := range unkept(f) {
				t.Errorf("%s passes %s to C without runtime.KeepAlive(%s) after it", f.Name.Name, owner, owner)
			}
		}
	}
	if checked < 200 {
		t.Errorf("%d arguments were found; the code was probably not read rightly", checked)
	}
}

func TestTheKeepAliveCheckSeesWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name, body string
		unkept     int
	}{
		{"kept", `cgotorch.Add(t.ptr("F"), u.ptr("F")); runtime.KeepAlive(t); runtime.KeepAlive(u.h)`, 0},
		{"one forgotten", `code := cgotorch.Add(t.ptr("F"), u.ptr("F")); runtime.KeepAlive(t); _ = code`, 1},
		{"kept too early", `runtime.KeepAlive(t); code := cgotorch.Neg(t.ptr("F")); _ = code`, 1},
		{"deferred",
			`defer runtime.KeepAlive([2]Tensor{t, u}); code := cgotorch.Add(t.ptr("F"), u.optional("F")); _ = code`, 0},
		{"a list", `code := cgotorch.Cat(required("F", ts)); _ = code`, 1},
		{"the field itself", `i := cgotorch.GetInfo(t.h.c); _ = i`, 1},
		{"an event", `cgotorch.Wait(e.pointer("F")); runtime.KeepAlive(t)`, 1},
		{"a check alone", `t.ptr("F")`, 0},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "f.go", "package torch\nfunc F(t, u Tensor, ts []Tensor) {\n"+
			c.body+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := unkept(file.Decls[0].(*ast.FuncDecl)); len(got) != c.unkept {
			t.Errorf("%s: %q are not kept alive, want %d", c.name, got, c.unkept)
		}
	}
}
