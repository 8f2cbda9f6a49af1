package trainer_test

import (
	"maps"
	"os"
	"path"
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
	for name := range exported(t, "trainer") {
		if field, ok := strings.CutPrefix(name, "Options."); ok &&
			!strings.Contains(string(text), "trainer.Options."+field+"`") {
			t.Errorf("the page does not name trainer.Options.%s", field)
		}
	}
}

// TestGoNamesOnThePagesExist looks each name such as trainer.Options.Epochs up in the list of its
// package in api/.
func TestGoNamesOnThePagesExist(t *testing.T) {
	lists := map[string]string{
		"trainer": "trainer", "engine": "trainer_engine", "semantics": "trainer_semantics",
		"callback": "trainer_callback", "trainertest": "trainer_trainertest", "arguments": "trainer_arguments",
		"torch": "torch", "lr": "optim_lr", "optim": "optim", "data": "data", "amp": "amp",
	}
	known := map[string]map[string]bool{}
	name := regexp.MustCompile("`(" + strings.Join(slices.Sorted(maps.Keys(lists)), "|") +
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
				known[m[1]] = exported(t, lists[m[1]])
			}
			if !known[m[1]][m[2]] {
				t.Errorf("%s names %s.%s, which does not exist", path.Base(page), m[1], m[2])
			}
		}
	}
}

// declaration matches a line of api/*.txt: a name, and a field or method of it.
var declaration = regexp.MustCompile(`(?m)^(?:const|var|func|type|method) (?:\(\*?(\w+)[^)]*\) )?(\w+)(?:, (\w+))?`)

// exported returns the exported names of a package, and the fields and methods of its types as
// Type.Name, as its list in api/ has them.
func exported(t *testing.T, list string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../api/" + list + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
		switch receiver, name, member := m[1], m[2], m[3]; {
		case receiver != "":
			names[receiver+"."+name] = true
		case member != "":
			names[name+"."+member] = true
		default:
			names[name] = true
		}
	}
	return names
}
