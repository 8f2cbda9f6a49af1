package documents

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seeds is the folder of the five documents, which are not distributed with this source.
const seeds = "../../../shared/seeds"

// listings maps each listing to its place in the documents: the first characters of a file name,
// and lines.
var listings = map[string]string{
	"The plate reader":                       "000 7-46",
	"A trained model, trained further":       "000 144-148",
	"Weights of another task":                "000 155-165",
	"Resuming":                               "000 263-267 270-275",
	"Saving and pushing":                     "000 319-319 321-321",
	"The first listing":                      "001 36-49 55-67",
	"Resuming from a checkpoint":             "001 73-77",
	"The weighted loss":                      "001 103-115",
	"The callback that stops after 10 steps": "001 123-133",
	"The callback is given":                  "001 137-148",
	"One log level":                          "001 162-175",
	"NEFTune":                                "001 192-195",
	"GaLore with a Gemma":                    "001 209-240",
	"StepLR":                                 "002 79-83",
	"StepLR by epochs":                       "002 91-102",
	"OneCycleLR":                             "002 112-122",
	"CosineLrScheduler":                      "002 144-153",
	"TrainerWithMetrics":                     "002 488-519",
	"The full training":                      "004 4-12 27-29 34-40 52-53 64-65 68-77 82-84 89-101 108-118",
	"The complete loop with Accelerate":      "004 4-12 27-29 34-40 192-218",
	"notebook_launcher":                      "004 227-228",
}

var listingRow = regexp.MustCompile("(?m)^\\| (.+) \\| (\\d+) \\| `([a-z0-9/_]+)(?::(Example\\w*))?` \\| (\\d+) \\|$")

func TestListingsHaveTheirNumberOfLines(t *testing.T) {
	page, err := os.ReadFile("../../docs/listings.md")
	require.NoError(t, err)
	rows := listingRow.FindAllStringSubmatch(string(page), -1)
	assert.Len(t, rows, len(listings), "every listing has a row")
	_, err = os.Stat(seeds)
	if err != nil {
		t.Log("the documents are not here; the lines of their listings are not counted")
	}
	for _, row := range rows {
		name, folder, example := row[1], row[3], row[4]
		assert.Contains(t, listings, name)
		if err == nil {
			assert.Equal(t, row[2], strconv.Itoa(pythonLines(t, listings[name])), "lines of Python: %s", name)
		}
		if example == "" {
			text, err := os.ReadFile(filepath.Join("../..", folder, "main.go"))
			require.NoError(t, err, name)
			assert.FileExists(t, filepath.Join("../..", folder, "main_test.go"), "what runs %s", name)
			assert.Equal(t, row[5], strconv.Itoa(goLines(text)), "lines of Go: %s", name)
			continue
		}
		assert.Equal(t, row[5], strconv.Itoa(exampleLines(t, filepath.Join("../..", folder), example)),
			"lines of Go: %s", name)
	}
}

// pythonLines counts the lines at a place of a document that are neither blank nor comments.
func pythonLines(t *testing.T, place string) (n int) {
	t.Helper()
	words := strings.Fields(place)
	files, err := filepath.Glob(filepath.Join(seeds, words[0]+"_*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	for _, span := range words[1:] {
		begin, end, _ := strings.Cut(span, "-")
		from, err := strconv.Atoi(begin)
		require.NoError(t, err)
		to, err := strconv.Atoi(end)
		require.NoError(t, err)
		for _, line := range lines[from-1 : to] {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				n++
			}
		}
	}
	return n
}

// goLines counts the lines of Go that contain more than a comment.
func goLines(text []byte) int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return len(lines)
		case kind == token.SEMICOLON && literal == "\n":
			continue
		}
		first := file.Line(pos)
		for i := range 1 + strings.Count(literal, "\n") {
			lines[first+i] = true
		}
	}
}

// exampleLines counts the lines in the body of an Example, and those of the types that it uses and
// its test files declare, with their methods.
func exampleLines(t *testing.T, folder, name string) (n int) {
	t.Helper()
	files := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	source := func(from, to token.Pos) []byte {
		begin, end := files.Position(from), files.Position(to)
		text, err := os.ReadFile(begin.Filename)
		require.NoError(t, err)
		return text[begin.Offset:end.Offset]
	}
	types, methods := map[string][]byte{}, map[string][][]byte{}
	var body *ast.BlockStmt
	for _, path := range names {
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				if spec, ok := d.Specs[0].(*ast.TypeSpec); ok && len(d.Specs) == 1 && spec.Assign == 0 {
					types[spec.Name.Name] = source(d.Pos(), d.End())
				}
			case *ast.FuncDecl:
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					receiver := strings.TrimLeft(string(source(of.Pos(), of.End())), "*")
					methods[receiver] = append(methods[receiver], source(d.Pos(), d.End()))
				} else if d.Name.Name == name {
					body = d.Body
				}
			}
		}
	}
	require.NotNil(t, body, "%s has no %s", folder, name)
	n = goLines(source(body.Lbrace+1, body.Rbrace))
	var counted []string
	ast.Inspect(body, func(node ast.Node) bool {
		if id, ok := node.(*ast.Ident); ok && types[id.Name] != nil && !slices.Contains(counted, id.Name) {
			counted = append(counted, id.Name)
			n += goLines(types[id.Name])
			for _, method := range methods[id.Name] {
				n += goLines(method)
			}
		}
		return true
	})
	return n
}
