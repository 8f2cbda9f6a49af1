package pytorchaccelerated_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
)

// guide returns the text of the migration guide for users of the Python package.
func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "from-pytorch-accelerated.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEverySnippetOfTheGuideIsALineOfAnExample(t *testing.T) {
	lines := map[string]bool{}
	for _, name := range []string{"example_test.go", "example_callbacks_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			lines[strings.TrimSpace(line)] = true
		}
	}
	fences := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(guide(t), -1)
	if len(fences) == 0 {
		t.Fatal("there are no snippets")
	}
	for _, fence := range fences {
		for line := range strings.Lines(fence[1]) {
			if !lines[strings.TrimSpace(line)] {
				t.Errorf("no example has the line %q", strings.TrimSpace(line))
			}
		}
	}
}

func TestTheGuideNamesRealExamplesAndIdentifiers(t *testing.T) {
	declared := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared[n.Name.Name] = true
			case *ast.TypeSpec:
				declared[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, id := range n.Names {
					declared[id.Name] = true
				}
			case *ast.Field:
				for _, id := range n.Names {
					declared[id.Name] = true
				}
			}
			return true
		})
	}
	text := guide(t)
	for _, name := range regexp.MustCompile("`(Example\\w*)`").FindAllStringSubmatch(text, -1) {
		if !declared[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
	for _, name := range regexp.MustCompile("`(?:pa|t)\\.([A-Z]\\w*)").FindAllStringSubmatch(text, -1) {
		if !declared[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
}

func TestTheGuideHasEveryRuleAndMethod(t *testing.T) {
	text := guide(t)
	for _, of := range []reflect.Type{reflect.TypeFor[pa.Rules](), reflect.TypeFor[pa.Methods[pa.Sample, pa.Batch]]()} {
		for i := range of.NumField() {
			if name := of.Field(i).Name; !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s.%s is missing", of.Name(), name)
			}
		}
	}
}

func TestExactHasEveryDefect(t *testing.T) {
	v := reflect.ValueOf(pa.Exact)
	for i := range v.NumField() {
		if !v.Field(i).Bool() {
			t.Errorf("Exact.%s is off", v.Type().Field(i).Name)
		}
	}
}
