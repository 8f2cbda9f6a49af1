package trainer_test

import (
	"maps"
	"os"
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
