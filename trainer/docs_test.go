package trainer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// python is what testdata/training_arguments.py found in transformers.
type python struct {
	Transformers   string         `json:"transformers"`
	Arguments      map[string]any `json:"arguments"`
	TrainerMethods []string       `json:"trainer_methods"`
	CallbackEvents []string       `json:"callback_events"`
}

// tableRows returns the cells of those rows of a page's tables whose first cell is a name in
// backticks.
func tableRows(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		cells[0] = strings.Trim(cells[0], "`")
		rows = append(rows, cells)
	}
	return rows
}

func TestEveryTrainingArgumentIsOnItsPage(t *testing.T) {
	var want python
	readCase(t, "testdata/training_arguments.json", &want)
	got := map[string]string{}
	for _, row := range tableRows(t, "../docs/training-arguments.md") {
		if _, twice := got[row[0]]; twice || len(row) != 3 || row[2] == "" {
			t.Errorf("row %q: want each argument once, its default, and what it is here", row)
		}
		got[row[0]] = row[1]
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want.Arguments)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("arguments (-transformers %s +page):\n%s", want.Transformers, diff)
	}
	text, err := os.ReadFile("testdata/training_arguments.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range got { // as JSON and Python write it
		for python, json := range map[string]string{"None": "null", "True": "true", "False": "false"} {
			if value == python {
				value = json
			}
		}
		if line := regexp.MustCompile(`"` + name + `": "?([^",\n]*)"?`).FindSubmatch(text); line == nil ||
			string(line[1]) != value {
			t.Errorf("%s: the page says that its default is %q, transformers says %q", name, value, line)
		}
	}
}

func TestEveryOptionIsOnThePage(t *testing.T) {
	text, err := os.ReadFile("../docs/training-arguments.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range exported(t, ".") {
		if field, ok := strings.CutPrefix(name, "Options."); ok && ast.IsExported(field) &&
			!strings.Contains(string(text), "trainer.Options."+field+"`") {
			t.Errorf("the page does not name trainer.Options.%s", field)
		}
	}
}

// TestGoNamesOnThePagesExist looks each name such as trainer.Options.Epochs up in the source of its
// package.
func TestGoNamesOnThePagesExist(t *testing.T) {
	folders := map[string]string{
		"trainer": ".", "engine": "engine", "semantics": "semantics", "callback": "callback",
		"trainertest": "trainertest", "arguments": "arguments", "torch": "../torch",
		"lr": "../optim/lr", "optim": "../optim", "data": "../data", "amp": "../amp",
	}
	known := map[string]map[string]bool{}
	name := regexp.MustCompile("`(" + strings.Join(slices.Sorted(maps.Keys(folders)), "|") +
		`)\.([A-Z]\w*(?:\.[A-Z]\w*)?)` + "`")
	for _, page := range []string{"../docs/training-arguments.md", "../docs/overrides.md", "../docs/semantics.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names nothing", page)
		}
		for _, m := range found {
			if known[m[1]] == nil {
				known[m[1]] = exported(t, folders[m[1]])
			}
			if !known[m[1]][m[2]] {
				t.Errorf("%s names %s.%s, which does not exist", path.Base(page), m[1], m[2])
			}
		}
	}
}

// exported returns the exported names of a package, and the fields and methods of its types as
// Type.Name.
func exported(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names, embedded := map[string]bool{}, map[string][]string{}
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no package in %s: %v", folder, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if receiver := receiverName(d); receiver != "" {
					names[receiver+"."+d.Name.Name] = true
				} else {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(names, embedded, s)
				}
			}
		}
	}
	for outer, types := range embedded {
		for name := range maps.Clone(names) {
			if inner, member, ok := strings.Cut(name, "."); ok && slices.Contains(types, inner) {
				names[outer+"."+member] = true
			}
		}
	}
	return names
}

func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	switch e := ast.Unparen(d.Recv.List[0].Type).(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	default:
		return typeName(e)
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return "?"
}

func addSpec(names map[string]bool, embedded map[string][]string, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch u := s.Type.(type) {
		case *ast.StructType:
			fields = u.Fields
		case *ast.InterfaceType:
			fields = u.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				names[s.Name.Name+"."+n.Name] = true
			}
			if f.Names == nil {
				embedded[s.Name.Name] = append(embedded[s.Name.Name], typeName(f.Type))
			}
		}
	}
}
