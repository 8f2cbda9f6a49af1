package glue

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data/table"
)

// Task is one of GLUE's tasks. The variables of this type ([MRPC], [SST2], ...) say how the files
// of the tasks are written.
type Task struct {
	Name string // in GLUE's spelling: "MRPC"

	// Labels are the names of the classes, in the order of their numbers in datasets'
	// "nyu-mll/glue". Nil for STS-B, which is a regression.
	Labels []string

	splits []split
	values map[string]int // classes by the text in the label column
	skips  bool           // rows with a wrong number of columns are left out
}

// Pairs reports whether an example consists of two sentences, either of which may be empty.
func (t Task) Pairs() bool { return t.splits[0].b != "" }

// split says how a split of a task is written.
type split struct {
	name    string
	files   [][]string // alternatives; the first list whose files all exist is read
	columns []string   // nil: the first line names them
	a, b    string     // columns of the sentences; b is empty for one sentence
	label   string     // column; empty in a test set, which has none
	index   string     // column, may be empty
}

// Names of the parts.
const (
	Train           = "train"
	Validation      = "validation"
	Test            = "test"
	ValidationExtra = "validation_mismatched" // MNLI only: genres that the training set lacks
	TestExtra       = "test_mismatched"
)

// The tasks.
var (
	CoLA = cola()
	SST2 = Task{
		Name: "SST-2", Labels: []string{"negative", "positive"}, values: numbered(2),
		splits: standard(split{a: "sentence", label: "label"}, split{a: "sentence", index: "index"}),
	}
	MRPC = Task{
		Name: "MRPC", Labels: []string{"not_equivalent", "equivalent"}, values: numbered(2),
		splits: standard(split{a: "#1 String", b: "#2 String", label: "Quality"}, split{a: "#1 String", b: "#2 String",
			index: "index"}),
	}
	QQP = Task{
		Name: "QQP", Labels: []string{"not_duplicate", "duplicate"}, values: numbered(2), skips: true,
		splits: standard(split{a: "question1", b: "question2", label: "is_duplicate", index: "id"},
			split{a: "question1", b: "question2", index: "id"}),
	}
	STSB = Task{
		Name: "STS-B",
		splits: standard(split{a: "sentence1", b: "sentence2", label: "score", index: "index"},
			split{a: "sentence1", b: "sentence2", index: "index"}),
	}
	MNLI = mnli()
	QNLI = Task{
		Name: "QNLI", Labels: []string{"entailment", "not_entailment"}, values: named("entailment", "not_entailment"),
		splits: standard(split{a: "question", b: "sentence", label: "label", index: "index"},
			split{a: "question", b: "sentence", index: "index"}),
	}
	RTE = Task{
		Name: "RTE", Labels: []string{"entailment", "not_entailment"}, values: named("entailment", "not_entailment"),
		splits: standard(split{a: "sentence1", b: "sentence2", label: "label", index: "index"},
			split{a: "sentence1", b: "sentence2", index: "index"}),
	}
	WNLI = Task{
		Name: "WNLI", Labels: []string{"not_entailment", "entailment"}, values: numbered(2),
		splits: standard(split{a: "sentence1", b: "sentence2", label: "label", index: "index"},
			split{a: "sentence1", b: "sentence2", index: "index"}),
	}
)

// Tasks returns all tasks, in GLUE's order.
func Tasks() []Task { return []Task{CoLA, SST2, MRPC, QQP, STSB, MNLI, QNLI, RTE, WNLI} }

// ByName returns the task with a name in the spelling of GLUE or of datasets: "MRPC" or "mrpc",
// "SST-2" or "sst2".
func ByName(name string) (Task, error) {
	var names []string
	for _, t := range Tasks() {
		if plain(t.Name) == plain(name) {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Task{}, fmt.Errorf("glue: no task %q; there are %q", name, names)
}

// plain returns the letters and digits of a name in lower case.
func plain(name string) string {
	var b []byte
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			b = append(b, c+'a'-'A')
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b = append(b, c)
		}
	}
	return string(b)
}

// standard returns the splits of train.tsv, dev.tsv and test.tsv.
func standard(labelled, test split) []split {
	train, dev := labelled, labelled
	train.name, train.files = Train, [][]string{{"train.tsv"}}
	dev.name, dev.files = Validation, [][]string{{"dev.tsv"}}
	test.name, test.files = Test, [][]string{{"test.tsv"}}
	return []split{train, dev, test}
}

// cola has a header in its test set only. It is also distributed as cola_public, whose two
// development files together are GLUE's single one.
func cola() Task {
	s := standard(split{a: "sentence", label: "label", columns: []string{"source", "label", "mark", "sentence"}},
		split{a: "sentence", index: "index"})
	s[0].files = append(s[0].files, []string{"in_domain_train.tsv"})
	s[1].files = append(s[1].files, []string{"in_domain_dev.tsv", "out_of_domain_dev.tsv"})
	return Task{Name: "CoLA", Labels: []string{"unacceptable", "acceptable"}, values: numbered(2), splits: s}
}

// mnli has two development and two test sets: matched, with the genres of the training set, and
// mismatched, with others.
func mnli() Task {
	labelled := split{a: "sentence1", b: "sentence2", label: "gold_label", index: "index"}
	s := standard(labelled, split{a: "sentence1", b: "sentence2", index: "index"})
	s[1].files, s[2].files = [][]string{{"dev_matched.tsv"}}, [][]string{{"test_matched.tsv"}}
	dev, test := s[1], s[2]
	dev.name, dev.files = ValidationExtra, [][]string{{"dev_mismatched.tsv"}}
	test.name, test.files = TestExtra, [][]string{{"test_mismatched.tsv"}}
	labels := []string{"entailment", "neutral", "contradiction"}
	return Task{Name: "MNLI", Labels: labels, values: named(labels...), splits: append(s, dev, test)}
}

func numbered(n int) map[string]int {
	values := make(map[string]int)
	for k := range n {
		values[fmt.Sprint(k)] = k
	}
	return values
}

func named(labels ...string) map[string]int {
	values := make(map[string]int)
	for k, l := range labels {
		values[l] = k
	}
	return values
}

// format returns the format of all of GLUE's files: columns between tabs, and quotes as part of the
// text, since they are often unpaired.
func (s split) format() table.Format {
	return table.Format{Syntax: table.TSV, Quoting: table.QuoteNone, Columns: s.columns, Memory: 1 << 30}
}
