// Package api lists the exported names of every public package, so that a change of the API is
// seen in review: api/*.txt at the root, one file for each package, as golang/go has it.
//
//	go test ./internal/api -update   # writes the files again
//
// It reads the source files only, so it needs neither libtorch nor a C compiler.
package api

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files of api again")

const root = "../.."

func TestExportedNamesAreThoseOfTheFiles(t *testing.T) {
	lists := map[string]string{}
	for _, folder := range packages(t) {
		if text := list(t, folder); text != "" {
			lists[fileOf(folder)] = text
		}
	}
	require.NotEmpty(t, lists)
	if *update {
		require.NoError(t, os.RemoveAll(filepath.Join(root, "api")))
		require.NoError(t, os.MkdirAll(filepath.Join(root, "api"), 0o777))
		for name, text := range lists {
			require.NoError(t, os.WriteFile(filepath.Join(root, "api", name), []byte(text), 0o666))
		}
		return
	}
	files, err := filepath.Glob(filepath.Join(root, "api", "*.txt"))
	require.NoError(t, err)
	for _, path := range files {
		assert.Contains(t, lists, filepath.Base(path), "the package of this file is gone; "+
			"run go test ./internal/api -update")
	}
	for name, want := range lists {
		text, err := os.ReadFile(filepath.Join(root, "api", name))
		require.NoError(t, err, "a new package; run go test ./internal/api -update")
		have := strings.Split(string(text), "\n")
		lines := strings.Split(want, "\n")
		for _, line := range lines {
			assert.True(t, slices.Contains(have, line), "api/%s lacks the exported name\n%s\n"+
				"run go test ./internal/api -update", name, line)
		}
		for _, line := range have {
			assert.True(t, slices.Contains(lines, line), "api/%s has what is no longer exported\n%s\n"+
				"run go test ./internal/api -update if that is meant", name, line)
		}
	}
}

// packages returns the folders of all public packages: not internal ones, commands, examples and
// cgotorch.
func packages(t *testing.T) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		name := e.Name()
		if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
			slices.Contains([]string{"internal", "testdata", "cmd", "examples", "scripts", "gen", "api",
				"cgotorch"}, name)) {
			return filepath.SkipDir
		}
		folder, err := filepath.Rel(root, path)
		folders = append(folders, folder)
		return err
	})
	require.NoError(t, err)
	return folders
}

func fileOf(folder string) string {
	return strings.ReplaceAll(filepath.ToSlash(folder), "/", "_") + ".txt"
}

// list returns a line for each exported constant, variable, function, type, field and method.
func list(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	var decls []ast.Decl
	fset := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		if f.Name.Name == "main" {
			return ""
		}
		decls = append(decls, f.Decls...)
	}
	text := textIn(fset)
	lines := structsOf(decls).promoted(text)
	for _, d := range decls {
		lines = append(lines, declared(d, text)...)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines) // declared in files for different systems
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// textIn returns a function that returns a piece of source in one line.
func textIn(fset *token.FileSet) func(ast.Node) string {
	return func(n ast.Node) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, n); err != nil {
			panic(err) // cannot happen: what was parsed can be printed
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
}

func methodLine(receiver, name, signature string) string {
	return fmt.Sprintf("method (%s) %s%s", receiver, name, strings.TrimPrefix(signature, "func"))
}

func fieldLine(of, name, fieldType string) string {
	return "type " + of + ", " + name + " " + fieldType
}

func declared(d ast.Decl, text func(ast.Node) string) (lines []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			return nil
		}
		if d.Recv == nil {
			return []string{"func " + d.Name.Name + strings.TrimPrefix(text(d.Type), "func")}
		}
		receiver := text(d.Recv.List[0].Type)
		if ast.IsExported(strings.TrimLeft(receiver, "*")) {
			return []string{methodLine(receiver, d.Name.Name, text(d.Type))}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						line := d.Tok.String() + " " + name.Name
						if s.Type != nil {
							line += " " + text(s.Type)
						}
						lines = append(lines, line)
					}
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					lines = append(lines, typeLines(s, text)...)
				}
			}
		}
	}
	return lines
}

// typeLines returns the lines for a type and its exported fields, or the methods of an interface.
func typeLines(s *ast.TypeSpec, text func(ast.Node) string) (lines []string) {
	name := "type " + s.Name.Name
	if s.TypeParams != nil {
		var params []string
		for _, p := range s.TypeParams.List {
			for _, n := range p.Names {
				params = append(params, n.Name+" "+text(p.Type))
			}
		}
		name += "[" + strings.Join(params, ", ") + "]"
	}
	if s.Assign.IsValid() {
		name += " ="
	}
	var fields *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		lines, fields = append(lines, name+" struct"), t.Fields
	case *ast.InterfaceType:
		lines, fields = append(lines, name+" interface"), t.Methods
	default:
		return []string{name + " " + text(s.Type)}
	}
	_, isInterface := s.Type.(*ast.InterfaceType)
	for _, f := range fields.List {
		of := text(f.Type)
		if len(f.Names) == 0 { // embedded
			base := strings.TrimLeft(of[strings.LastIndexByte(of, '.')+1:], "*")
			if ast.IsExported(base) {
				lines = append(lines, "type "+s.Name.Name+", "+of)
			}
		}
		for _, n := range f.Names {
			if n.IsExported() {
				if signature, ok := strings.CutPrefix(of, "func("); ok && isInterface {
					lines = append(lines, "type "+s.Name.Name+", "+n.Name+"("+signature)
				} else {
					lines = append(lines, fieldLine(s.Name.Name, n.Name, of))
				}
			}
		}
	}
	return lines
}

func TestDeclaredNamesWhatIsExported(t *testing.T) {
	const source = `package p

type (
	A[T any, S ~int] struct {
		io.Reader
		hidden
		B, c int
	}
	I interface{ Do(x int) error }
	L = map[string]A
	private struct{ X int }
)

const C, d = 1, 2

var V *int

func F[T any](x T) (y int, err error) { return }
func (a *A[T, S]) M() {}
func (private) M() {}
func g() {}
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	var lines []string
	for _, d := range f.Decls {
		lines = append(lines, declared(d, textIn(fset))...)
	}
	assert.Equal(t, []string{
		"type A[T any, S ~int] struct", "type A, io.Reader", "type A, B int",
		"type I interface", "type I, Do(x int) error", "type L = map[string]A",
		"const C", "var V *int",
		"func F[T any](x T) (y int, err error)", "method (*A[T, S]) M()",
	}, lines)
}
