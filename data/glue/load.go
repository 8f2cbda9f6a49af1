package glue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/parquet"
	"github.com/gotrainer/gotrainer/data/table"
	"github.com/gotrainer/gotrainer/hub"
)

// Dataset is the name of GLUE on the Hub.
const Dataset = "nyu-mll/glue"

// Load downloads a task of [Dataset] from the Hub to the cache and reads all its parts, as
// datasets.load_dataset("glue", "mrpc") does. A second call uses the cached files.
func Load(ctx context.Context, task string) (*Set, error) { return LoadFrom(ctx, task, Dataset) }

// LoadFrom is [Load] from a folder, or from another data set on the Hub with the same layout:
//
//   - GLUE's own TSV files, as for [Open];
//   - Parquet files of datasets, train-00000-of-00001.parquet or train.parquet, in the folder
//     itself or in a subfolder with the name of the task, "mrpc";
//   - train.csv, validation.csv and test.csv with the same columns, of which the sentences and
//     "label" are read.
func LoadFrom(ctx context.Context, task, from string) (*Set, error) {
	t, err := ByName(task)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(from)
	switch {
	case err == nil && !info.IsDir():
		return nil, fmt.Errorf("glue: %s: %s is a file; want the folder of its parts", t.Name, from)
	case err == nil:
		return t.fromFolder(from)
	}
	repo, err := hub.Fetch(ctx, from, &hub.FetchOptions{Type: hub.Dataset, Allow: []string{plain(t.Name) + "/*"}})
	if err != nil {
		return nil, fmt.Errorf("glue: %s: %q is not a folder here, and the Hub says: %w", t.Name, from, err)
	}
	return t.fromFolder(repo.Dir)
}

// fromFolder reads the splits of a task that are in a folder.
func (t Task) fromFolder(dir string) (*Set, error) {
	set, err := Open(dir, t)
	if !errors.Is(err, ErrNoFiles) {
		return set, err
	}
	set = &Set{Task: t}
	found := false
	for _, split := range t.splits {
		files := t.tables(dir, split.name)
		if len(files) == 0 {
			continue
		}
		found = true
		examples := &Examples{}
		for _, path := range files {
			if err := t.addTable(examples, path); err != nil {
				return nil, fmt.Errorf("glue: %s: %s: %w", t.Name, path, err)
			}
			examples.files, examples.ends = append(examples.files, path), append(examples.ends, len(examples.list))
		}
		set.put(split.name, examples)
	}
	if !found {
		return nil, fmt.Errorf("glue: %s: %w in %s; it has %s, or Parquet or CSV files such as "+
			"train-00000-of-00001.parquet", t.Name, ErrNoFiles, dir, t.names())
	}
	return set, nil
}

// tables returns the Parquet or CSV files of a split.
func (t Task) tables(dir, split string) []string {
	if plain(t.Name) == "mnli" && (split == Validation || split == Test) {
		split += "_matched" // as datasets calls it
	}
	for _, dir := range []string{filepath.Join(dir, plain(t.Name)), dir} {
		for _, pattern := range []string{split + "-?????-of-?????.parquet", split + ".parquet", split + ".csv"} {
			if files, err := fs.Glob(os.DirFS(dir), pattern); err == nil && len(files) > 0 {
				slices.Sort(files)
				for i, name := range files {
					files[i] = filepath.Join(dir, name)
				}
				return files
			}
		}
	}
	return nil
}

// sentences holds the text columns of each task in datasets: task_to_keys of run_glue.py.
var sentences = map[string][2]string{"cola": {"sentence"}, "sst2": {"sentence"}, "mrpc": {"sentence1", "sentence2"},
	"qqp": {"question1", "question2"}, "stsb": {"sentence1", "sentence2"}, "mnli": {"premise", "hypothesis"},
	"qnli": {"question", "sentence"}, "rte": {"sentence1", "sentence2"}, "wnli": {"sentence1", "sentence2"}}

// row is a row of a file of datasets; a column that the file does not have is nil.
type row[L int | float64] struct {
	Sentence   *string `table:"sentence,optional"`
	Sentence1  *string `table:"sentence1,optional"`
	Sentence2  *string `table:"sentence2,optional"`
	Question   *string `table:"question,optional"`
	Question1  *string `table:"question1,optional"`
	Question2  *string `table:"question2,optional"`
	Premise    *string `table:"premise,optional"`
	Hypothesis *string `table:"hypothesis,optional"`
	Label      *L      `table:"label,optional"`
	Index      *int    `table:"idx,optional"`
}

func (r *row[L]) column(name string) *string {
	return map[string]*string{"sentence": r.Sentence, "sentence1": r.Sentence1, "sentence2": r.Sentence2,
		"question": r.Question, "question1": r.Question1, "question2": r.Question2, "premise": r.Premise,
		"hypothesis": r.Hypothesis}[name]
}

// addTable adds the rows of a file.
func (t Task) addTable(e *Examples, path string) error {
	if t.Labels == nil {
		return addRows(e, t, path, func(e *Example, score float64) error {
			if e.Score = score; score != -1 && !(score >= 0 && score <= 5) { // a test set has -1
				return fmt.Errorf("the score is %v, want a number from 0 to 5", score)
			}
			return nil
		})
	}
	return addRows(e, t, path, func(e *Example, label int) error {
		if e.Label = label; label < -1 || label >= len(t.Labels) {
			return fmt.Errorf("the label is %d, want 0 to %d, or -1 for none", label, len(t.Labels)-1)
		}
		return nil
	})
}

func addRows[L int | float64](e *Examples, t Task, path string, label func(*Example, L) error) error {
	rows, done, err := openRows[L](path)
	if err != nil {
		return err
	}
	defer done()
	names := sentences[plain(t.Name)]
	i := 0
	for r, err := range rows {
		if err != nil {
			return err
		}
		a, b := r.column(names[0]), r.column(names[1])
		if a == nil || b == nil && names[1] != "" {
			return fmt.Errorf("row %d has no text in the columns %q", i, names)
		}
		example := Example{A: *a, Label: -1, Index: len(e.list)}
		if b != nil {
			example.B = *b
		}
		if r.Index != nil {
			example.Index = *r.Index
		}
		if r.Label != nil {
			if err := label(&example, *r.Label); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
		e.list = append(e.list, example)
		i++
	}
	return nil
}

// openRows opens a file as Parquet if it has that extension, and otherwise as CSV.
func openRows[L int | float64](path string) (iter.Seq2[row[L], error], func(), error) {
	if filepath.Ext(path) == ".parquet" {
		rows, err := parquet.Open[row[L]](path, parquet.Options{})
		if err != nil {
			return nil, nil, err
		}
		return rows.Samples(0, 0), func() { _ = rows.Close() }, nil
	}
	rows, err := table.OpenRows[row[L]](path, table.Format{})
	if err != nil {
		return nil, nil, err
	}
	return rows.Samples(0, 0), func() { _ = rows.Close() }, nil
}

// put stores the split of that name.
func (s *Set) put(name string, e data.Dataset[Example]) {
	switch name {
	case Train:
		s.Train = e
	case Validation:
		s.Validation = e
	case Test:
		s.Test = e
	case ValidationExtra:
		s.ValidationMismatched = e
	case TestExtra:
		s.TestMismatched = e
	}
}
