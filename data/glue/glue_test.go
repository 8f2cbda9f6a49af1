package glue_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
)

var _ data.Dataset[glue.Example] = (*glue.Examples)(nil)

// folder creates a folder with files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func all(t testing.TB, d data.Dataset[glue.Example]) []glue.Example {
	t.Helper()
	if d == nil {
		return nil
	}
	var list []glue.Example
	for i := range d.Len() {
		e, err := d.At(i)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// TestTasks has a row for each layout. The sentences are made up.
func TestTasks(t *testing.T) {
	for _, c := range []struct {
		task       glue.Task
		file, text string
		want       glue.Example
		part       func(*glue.Set) data.Dataset[glue.Example]
	}{
		{glue.CoLA, "train.tsv", "ab12\t1\t\tThe cat \"sat.\nab12\t0\t*\tCat the sat.\n",
			glue.Example{A: "The cat \"sat.", Label: 1}, train},
		{glue.CoLA, "test.tsv", "index\tsentence\n0\tA cat sat.\n", glue.Example{A: "A cat sat.", Label: -1}, test},
		{glue.SST2, "dev.tsv", "sentence\tlabel\na fine film \t1\n", glue.Example{A: "a fine film ", Label: 1},
			validation},
		{glue.SST2, "test.tsv", "index\tsentence\n7\ta dull film\n", glue.Example{A: "a dull film", Label: -1,
			Index: 7}, test},
		{glue.MRPC, "train.tsv", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tHe \"said so.\tShe did " +
			"not.\n", glue.Example{A: "He \"said so.", B: "She did not."}, train},
		{glue.MRPC, "test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n3\t1\t2\tA.\tB.\n",
			glue.Example{A: "A.", B: "B.", Label: -1, Index: 3}, test},
		{glue.QQP, "train.tsv", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tWhy?\tWhy so?\t1\n",
			glue.Example{A: "Why?", B: "Why so?", Label: 1, Index: 5}, train},
		{glue.QQP, "test.tsv", "id\tquestion1\tquestion2\n5\tWhy?\tWhy so?\n", glue.Example{A: "Why?", B: "Why so?",
			Label: -1, Index: 5}, test},
		{glue.STSB, "dev.tsv",
			"index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n" +
				"2\tg\tf\t2012\t1\tnone\tnone\tOne.\tTwo.\t3.25\n",
			glue.Example{A: "One.", B: "Two.", Label: -1, Score: 3.25, Index: 2}, validation},
		{glue.MNLI, "dev_mismatched.tsv",
			"index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t" +
				"sentence2_parse\tsentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n" +
				"1\t2\t3e\tg\t( a )\t( b )\t(R a)\t(R b)\tIt rains.\tIt is dry.\tneutral\tx\tx\tx\tx\tcontradiction\n",
			glue.Example{A: "It rains.", B: "It is dry.", Label: 2, Index: 1},
			func(s *glue.Set) data.Dataset[glue.Example] { return s.ValidationMismatched }},
		{glue.QNLI, "train.tsv", "index\tquestion\tsentence\tlabel\n4\tWho?\tHe.\tnot_entailment\n",
			glue.Example{A: "Who?", B: "He.", Label: 1, Index: 4}, train},
		{glue.RTE, "dev.tsv", "index\tsentence1\tsentence2\tlabel\r\n4\tOne.\tTwo.\tentailment\r\n",
			glue.Example{A: "One.", B: "Two.", Index: 4}, validation},
		{glue.WNLI, "train.tsv", "index\tsentence1\tsentence2\tlabel\n4\tOne.\tTwo.\t1\n", glue.Example{A: "One.",
			B: "Two.", Label: 1, Index: 4}, train},
	} {
		set, err := glue.Open(folder(t, map[string]string{c.file: c.text}), c.task)
		if err != nil {
			t.Errorf("%s %s: %v", c.task.Name, c.file, err)
			continue
		}
		if got := all(t, c.part(set)); len(got) == 0 || got[0] != c.want {
			t.Errorf("%s %s: %+v, want %+v", c.task.Name, c.file, got, c.want)
		}
	}
}

func train(s *glue.Set) data.Dataset[glue.Example]      { return s.Train }
func validation(s *glue.Set) data.Dataset[glue.Example] { return s.Validation }
func test(s *glue.Set) data.Dataset[glue.Example]       { return s.Test }

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name       string
		task       glue.Task
		file, text string
		want       string
	}{
		{"a label that does not exist", glue.RTE, "train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n",
			`line 2 of `},
		{"an empty label", glue.SST2, "train.tsv", "sentence\tlabel\na\t\n", `the label is "", want one of ["0" "1"]`},
		{"a score out of range", glue.STSB, "train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.1\n",
			`the score is "5.1"`},
		{"a number that is none", glue.RTE, "train.tsv", "index\tsentence1\tsentence2\tlabel\nx\ta\tb\tentailment\n",
			`its number is "x"`},
		{"a missing column", glue.MRPC, "train.tsv", "Quality\t#1 String\n1\ta\n",
			`no column "#2 String"; there are ["Quality" "#1 String"]`},
		{"a broken row", glue.RTE, "train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n",
			"line 2: 3 columns, expected 4"},
		{"an empty file", glue.RTE, "train.tsv", "", "the file is empty"},
		{"another task's files", glue.MNLI, "train.tsx", "", "no file of the task in "},
	} {
		if _, err := glue.Open(folder(t, map[string]string{c.file: c.text}), c.task); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := glue.Open("/no/such/folder", glue.RTE); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	if _, err := glue.Open(t.TempDir(), glue.RTE); !errors.Is(err, glue.ErrNoFiles) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestBrokenRowsOfQQPAreCounted(t *testing.T) {
	set, err := glue.Open(folder(t,
		map[string]string{"train.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n" +
			"5\t1\t2\tWhy?\n6\t1\t2\ta\tb\t0\n7\t1\n8\t1\t2\tc\td\t1\n9\n"}), glue.QQP)
	if err != nil {
		t.Fatal(err)
	}
	got := all(t, set.Train)
	want := []glue.Example{{A: "a", B: "b", Index: 6}, {A: "c", B: "d", Label: 1, Index: 8}}
	if diff := cmp.Diff(want, got); diff != "" || set.Train.(*glue.Examples).Skipped != 3 {
		t.Errorf("%d skipped\n%s", set.Train.(*glue.Examples).Skipped, diff)
	}
}

func TestCoLAPublicHasTwoDevelopmentFiles(t *testing.T) {
	set, err := glue.Open(folder(t, map[string]string{"in_domain_dev.tsv": "a\t1\t\tOne.\n",
		"out_of_domain_dev.tsv": "b\t0\t*\tTwo."}), glue.CoLA)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]glue.Example{{A: "One.", Label: 1}, {A: "Two.", Index: 1}},
		all(t, set.Validation)); diff != "" || set.Train != nil {
		t.Error(diff)
	}
	if got := set.Validation.(data.Describer).Describe(1); !strings.HasPrefix(got, "example 0 of ") ||
		!strings.HasSuffix(got, "out_of_domain_dev.tsv") {
		t.Errorf("Describe = %q", got)
	}
}

// TestRealFiles checks the counts in the READMEs of the data sets.
func TestRealFiles(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data")
	for _, c := range []struct {
		folder string
		task   glue.Task
		want   [3]string // for each part, rows and rows of class 1
	}{
		{"mrpc", glue.MRPC, [3]string{"3668 2474", "408 279", "1725 0"}},
		{"sst2", glue.SST2, [3]string{"67349 37569", "872 444", ""}},
		{"cola", glue.CoLA, [3]string{"8551 6023", "1043 719", ""}},
		{"rte", glue.RTE, [3]string{"2490 1241", "277 131", ""}},
	} {
		dir := filepath.Join(root, c.folder)
		if _, err := os.Stat(dir); err != nil {
			t.Skipf("the GLUE files are not here, which may not be shipped: %v", err)
		}
		set, err := glue.Open(dir, c.task)
		if err != nil {
			t.Errorf("%s: %v", c.task.Name, err)
			continue
		}
		for k, part := range []data.Dataset[glue.Example]{set.Train, set.Validation, set.Test} {
			got := ""
			if part != nil {
				ones := 0
				for _, e := range all(t, part) {
					if e.Label == 1 {
						ones++
					}
				}
				got = fmt.Sprint(part.Len(), ones)
			}
			if got != c.want[k] {
				t.Errorf("%s, part %d: %q, want %q", c.task.Name, k, got, c.want[k])
			}
		}
	}
}

func TestByName(t *testing.T) {
	for _, name := range []string{"SST-2", "sst2", "SST2"} {
		if task, err := glue.ByName(name); err != nil || task.Name != "SST-2" {
			t.Errorf("ByName(%q) = %v, %v", name, task.Name, err)
		}
	}
	if _, err := glue.ByName("squad"); err == nil || !strings.Contains(err.Error(), `there are ["CoLA"`) {
		t.Errorf("ByName(squad): %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // of its workers too, which may be killed
	for k := range glue.Tasks() {
		f.Add(k, []byte("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n"))
		f.Add(k, []byte("a\t1\t\t\"b\n\n\xff"))
		f.Add(k, []byte("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\n1\t2\t3\t4\t5\t1"))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, task int, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, "train.tsv"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		chosen := glue.Tasks()[uint(task)%uint(len(glue.Tasks()))]
		set, err := glue.Open(dir, chosen)
		if err != nil {
			return
		}
		for _, e := range all(t, set.Train) {
			if e.Label < -1 || e.Label >= max(1, len(chosen.Labels)) {
				t.Fatalf("label %d", e.Label)
			}
		}
	})
}

func ExampleOpen() {
	set, err := glue.Open("testdata/RTE", glue.RTE)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := set.Train.At(0)
	fmt.Println(set.Train.Len(), e.A, "/", e.B, set.Task.Labels[e.Label], err)
	// Output: 2 The river "Neckar" froze in 1963. / The river froze. entailment <nil>
}
