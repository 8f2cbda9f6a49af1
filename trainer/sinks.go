package trainer

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// The metrics files. They are in this package, not in trainer/callback, because every run with an
// output folder has them and callback imports trainer. They are hooks like any other, and use only
// what a Run offers.

const (
	metricsFile  = "metrics.jsonl"
	metricsTable = "metrics.csv"
)

// metricsLog writes one of the files. When a run begins, the file is made equal to the log of the
// checkpoint, so that rows of an interrupted session after that do not appear twice. A row that
// cannot be written does not end the run: there is one warning, and the file is rewritten from the
// log at the next row or at the end. Only failing to create the file at the start is an error,
// since nothing is lost yet.
type metricsLog struct {
	path   string
	format interface {
		file(rows []Logs) ([]byte, error)
		line(row Logs) ([]byte, error) // nil: this row needs the whole file rewritten
	}
	warn func(format string, args ...any)
	owed bool
}

func (l *metricsLog) TrainBegin(r *Run) error {
	text, err := l.format.file(r.History())
	if err != nil {
		return err
	}
	return writing(l.path, replaceFile(l.path, text))
}

func (l *metricsLog) AfterLog(r *Run, row Logs) error {
	err := l.add(r, row)
	if err != nil && !l.owed {
		l.warn("%v; the run continues, and its rows will be written when that is possible again", err)
	}
	l.owed = err != nil
	return nil
}

func (l *metricsLog) add(r *Run, row Logs) error {
	text, err := l.format.line(row)
	switch {
	case err != nil:
		return err
	case text == nil || l.owed:
		return l.TrainBegin(r)
	}
	return appendTo(l.path, text)
}

func (l *metricsLog) TrainEnd(r *Run) error {
	l.finish(r)
	return nil
}

func (l *metricsLog) TrainFailed(r *Run, _ error) { l.finish(r) }

func (l *metricsLog) finish(r *Run) {
	if !l.owed {
		return
	}
	if err := l.TrainBegin(r); err != nil {
		l.warn("%v; the rows since then are only in Result.History", err)
	}
}

// metricsJSONL has one row of the log per line: the record of a run, from which everything else can
// be derived.
type metricsJSONL struct{}

func (metricsJSONL) file(rows []Logs) ([]byte, error) {
	var b bytes.Buffer
	for _, row := range rows {
		if err := json.NewEncoder(&b).Encode(row); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func (f metricsJSONL) line(row Logs) ([]byte, error) { return f.file([]Logs{row}) }

// metricsCSV is for spreadsheets: the same rows, with a column for each name. A name that appears
// for the first time adds a column.
type metricsCSV struct{ columns []string }

func (f *metricsCSV) file(rows []Logs) ([]byte, error) {
	all := Logs{}
	for _, row := range rows {
		maps.Copy(all, row)
	}
	f.columns = slices.SortedFunc(maps.Keys(all), compareColumns)
	var records [][]string
	if len(f.columns) > 0 {
		records = append(records, f.columns)
	}
	for _, row := range rows {
		records = append(records, f.record(row))
	}
	return csvLines(records...)
}

func (f *metricsCSV) line(row Logs) ([]byte, error) {
	for name := range row {
		if !slices.Contains(f.columns, name) {
			return nil, nil
		}
	}
	return csvLines(f.record(row))
}

// compareColumns puts step and epoch first, where a reader looks for them.
func compareColumns(a, b string) int {
	first := func(name string) int { return slices.Index([]string{"epoch", "step"}, name) }
	return cmp.Or(first(b)-first(a), compareKeys(a, b))
}

// record returns a row of the table, with an empty cell for each name that the row of the log
// lacks.
func (f *metricsCSV) record(row Logs) []string {
	cells := make([]string, len(f.columns))
	for i, name := range f.columns {
		if v, ok := row[name]; ok {
			cells[i] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return cells
}

func csvLines(records ...[]string) ([]byte, error) {
	var b bytes.Buffer
	err := csv.NewWriter(&b).WriteAll(records)
	return b.Bytes(), err
}

// appendTo opens the file for each row, so that nothing is lost in a buffer when the process dies.
func appendTo(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return writing(path, err)
	}
	_, err = f.Write(text)
	return writing(path, errors.Join(err, f.Close()))
}

// metricsError says which file of a run could not be written. It is not wrapped in a [*HookError],
// since the user knows the file but not the hook.
type metricsError struct {
	path string
	err  error
}

// writing wraps an error with the name of the file that was to be written; nil stays nil.
func writing(path string, err error) error {
	if err == nil {
		return nil
	}
	return &metricsError{path, err}
}

func (e *metricsError) Error() string {
	reason, remedy := e.err, "does the folder still exist, and is it writable?"
	if found, ok := errors.AsType[*fs.PathError](e.err); ok {
		reason = found.Err // its path may be that of the temporary file
	}
	if errors.Is(e.err, syscall.ENOSPC) || errors.Is(e.err, syscall.EDQUOT) {
		remedy = "make room on its disk, or choose another Options.OutputDir"
	}
	return fmt.Sprintf("cannot write %s: %v; %s", e.path, reason, remedy)
}

func (e *metricsError) Unwrap() error { return e.err }

// replaceFile writes a file of the run's folder completely or not at all. Its temporary file always
// has the same name, so that the next write replaces what a killed process has left.
func replaceFile(path string, text []byte) (err error) {
	aside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	f, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		_ = os.Remove(aside)
	}
	return err
}
