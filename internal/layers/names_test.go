package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// foreign lists names from packages in other languages that look like ours.
var foreign = map[string]bool{
	"nn.Module":       true, // PyTorch's
	"optim.PARAMETER": true, // a name in a file
	"optim.X":         true, // any of them
	"lr.X":            true,
	"trainer.Train":   true, // methods of a value called trainer
	"trainer.Fit":     true,
}

// named matches pkg.Name and pkg.Type.Member.
var named = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// Checks that the pages in docs, the README and the docs of all packages mention only names that
// the packages export.
func TestDocsNameWhatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	// By package: Name, Type.Member, and Type.* if a type has members from elsewhere.
	names := map[string]map[string]bool{}
	texts := map[string]string{} // by page or package
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "internal"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md" && d.Name() != "CHANGELOG.md": // also mentions names that no longer exist
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if f.Name.Name == "main" {
			return nil
		}
		if names[f.Name.Name] == nil {
			names[f.Name.Name] = map[string]bool{}
		}
		if f.Doc != nil {
			texts[path] = f.Doc.Text()
		}
		for _, decl := range f.Decls {
			declared(decl, names[f.Name.Name])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, text := range texts {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			exported, ours := names[m[1]]
			if !ours || foreign[m[1]+"."+m[2]] {
				continue
			}
			checked++
			if !exported[m[2]] || m[3] != "" && !exported[m[2]+"."+m[3]] && !exported[m[2]+".*"] {
				t.Errorf("%s names %s, which does not exist", path, m[0])
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d names were found in %d texts", checked, len(texts))
	}
}

// declared adds the names in a declaration.
func declared(decl ast.Decl, names map[string]bool) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		names[name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				for _, member := range members(s.Type) {
					names[s.Name.Name+"."+member] = true
				}
			}
		}
	}
}

// members returns the fields or methods of a type; "*" stands for those of another type that it
// embeds or is defined as.
func members(e ast.Expr) (list []string) {
	var fields *ast.FieldList
	switch t := e.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return []string{"*"}
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			list = append(list, "*")
		}
		for _, n := range f.Names {
			list = append(list, n.Name)
		}
	}
	return list
}

// receiver returns the name of the type that a method belongs to.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
