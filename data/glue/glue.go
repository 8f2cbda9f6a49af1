// Package glue reads the tasks of the GLUE benchmark: from the Hub, from the TSV files in which
// they are distributed ([Open]), or from Parquet and CSV files ([LoadFrom]). It also has their
// [Metrics].
//
//	mrpc, err := glue.Load(ctx, "mrpc") // from the Hub, as datasets.load_dataset("glue", "mrpc")
//	train := data.Map(mrpc.Train, func(e glue.Example) (Sample, error) { return encode(e.A, e.B, e.Label) })
//
// The files of the tasks differ: in the names and the number of their columns, in whether they have
// a header, a byte order mark or labels. None of them uses quoting: a double quote is part of the
// text and rarely has a partner, so a CSV reader would swallow rows. [Task] describes each task;
// what does not fit is an error with its line.
//
// Labels are numbered as by datasets' "nyu-mll/glue": entailment is 0 in RTE and QNLI but 1 in
// WNLI. A test set has no labels, and each of its examples has the label -1.
package glue

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
)

// Example is a row of a task.
type Example struct {
	A, B  string  // the sentences, in the order of the file; B is empty in CoLA and SST-2
	Label int     // the class; -1 if it is not known, and always in STS-B
	Score float64 // STS-B only: how similar the sentences are, from 0 to 5
	Index int     // the number of the row in the file, or its position if the file has no numbers
}

// Set holds the parts of a task. A part without a file is nil.
type Set struct {
	Task                                 Task
	Train, Validation, Test              data.Dataset[Example]
	ValidationMismatched, TestMismatched data.Dataset[Example] // MNLI only
}

// ErrNoFiles is wrapped by the error about a folder that has no file of the task.
var ErrNoFiles = errors.New("no file of the task")

// Open reads a task from a folder: train.tsv, dev.tsv and test.tsv; for MNLI dev_matched.tsv and so
// on; for CoLA also the files of cola_public. The files are held in memory; the largest, that of
// MNLI, has 80 MB.
func Open(dir string, task Task) (*Set, error) {
	set := &Set{Task: task}
	found := false
	for _, s := range task.splits {
		files := s.in(dir)
		if files == nil {
			continue
		}
		found = true
		examples, err := task.read(s, files)
		if err != nil {
			return nil, fmt.Errorf("glue: %s: %w", task.Name, err)
		}
		set.put(s.name, examples)
	}
	if !found {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("glue: %s: %w", task.Name, err)
		}
		return nil, fmt.Errorf("glue: %s: %w in %s; it has %s", task.Name, ErrNoFiles, dir, task.names())
	}
	return set, nil
}

// in returns the files of the split in a folder, or nil if they are not all there.
func (s split) in(dir string) []string {
	for _, list := range s.files {
		paths := make([]string, len(list))
		for k, name := range list {
			paths[k] = filepath.Join(dir, name)
		}
		if !slices.ContainsFunc(paths, func(p string) bool {
			_, err := os.Stat(p)
			return errors.Is(err, fs.ErrNotExist)
		}) {
			return paths
		}
	}
	return nil
}

func (t Task) names() string {
	var names []string
	for _, s := range t.splits {
		for _, list := range s.files {
			names = append(names, list...)
		}
	}
	return strings.Join(names, ", ")
}

// read reads the files of a split.
func (t Task) read(s split, files []string) (*Examples, error) {
	e := &Examples{}
	for _, path := range files {
		if err := t.add(e, s, path); err != nil {
			return nil, err
		}
		e.files, e.ends = append(e.files, path), append(e.ends, len(e.list))
	}
	return e, nil
}

// add adds the rows of a file.
func (t Task) add(e *Examples, s split, path string) error {
	rows, err := table.OpenRows[[]string](path, s.format())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // it was only read
	at, err := s.find(rows.Columns())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	e.list = slices.Grow(e.list, rows.Len())
	i := 0
	for i < rows.Len() {
		for row, err := range rows.Samples(0, i) {
			i++
			if errors.Is(err, table.ErrColumns) && t.skips {
				e.Skipped++
				break // leave the row out; the next stream begins after it
			}
			if err != nil {
				return err
			}
			example, err := t.example(at, row, len(e.list))
			if err != nil {
				return fmt.Errorf("%s of %s: %w", rows.Describe(i-1), t.Name, err)
			}
			e.list = append(e.list, example)
		}
	}
	return nil
}

// places holds the indices of the columns, -1 for a column that a split does not have.
type places struct{ a, b, label, index int }

// find looks up the columns among those of a file.
func (s split) find(names []string) (p places, err error) {
	for _, c := range []struct {
		name string
		at   *int
	}{{s.a, &p.a}, {s.b, &p.b}, {s.label, &p.label}, {s.index, &p.index}} {
		*c.at = slices.Index(names, c.name)
		if c.name != "" && *c.at < 0 {
			return p, fmt.Errorf("no column %q; there are %q", c.name, names)
		}
	}
	return p, nil
}

// example makes an Example of a row. place is its Index if the file has no numbers.
func (t Task) example(at places, row []string, place int) (e Example, err error) {
	e = Example{A: row[at.a], Label: -1, Index: place}
	if at.b >= 0 {
		e.B = row[at.b]
	}
	if at.index >= 0 {
		if e.Index, err = strconv.Atoi(row[at.index]); err != nil {
			return e, fmt.Errorf("its number is %q, want an integer", row[at.index])
		}
	}
	if at.label < 0 {
		return e, nil
	}
	label := row[at.label]
	if t.values == nil {
		if e.Score, err = strconv.ParseFloat(label, 64); err != nil || !(e.Score >= 0 && e.Score <= 5) {
			return e, fmt.Errorf("the score is %q, want a number from 0 to 5", label)
		}
		return e, nil
	}
	var known bool
	if e.Label, known = t.values[label]; !known {
		return e, fmt.Errorf("the label is %q, want one of %q", label, slices.Sorted(maps.Keys(t.values)))
	}
	return e, nil
}

// Examples is the data set of one part of a task.
type Examples struct {
	// Skipped is the number of rows of QQP that were left out, as in datasets: three lines of its
	// training file are broken. In any other task such a row is an error.
	Skipped int

	list  []Example
	files []string
	ends  []int // ends[k] is the number of examples in files[:k+1]
}

// Len returns the number of examples.
func (e *Examples) Len() int { return len(e.list) }

// At returns example i.
func (e *Examples) At(i int) (Example, error) { return e.list[i], nil }

// Describe says which example of which file example i is.
func (e *Examples) Describe(i int) string {
	k := sort.SearchInts(e.ends, i+1)
	if k > 0 {
		i -= e.ends[k-1]
	}
	return fmt.Sprintf("example %d of %s", i, e.files[k])
}
