package hezar

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Value is a named number: "evaluation.cer".
type Value struct {
	Name  string
	Value float64

	Integer bool // Hezar's number is an int: the mean of an evaluation without samples, with Rules.EmptyEvaluation
}

// String returns the number as Hezar writes it: 0 for the mean of nothing, which is an integer in
// Python, and 0.0 for a measured one.
func (v Value) String() string {
	if v.Integer {
		return strconv.Itoa(int(v.Value))
	}
	return pyfloat.Repr(v.Value)
}

// Logs are numbers in the order in which they are logged.
type Logs []Value

// Get returns the number with the given name.
func (l Logs) Get(name string) (float64, bool) {
	v, ok := l.find(name)
	return v.Value, ok
}

func (l Logs) find(name string) (Value, bool) {
	if i := slices.IndexFunc(l, func(v Value) bool { return v.Name == name }); i >= 0 {
		return l[i], true
	}
	return Value{}, false
}

// CSVLog is training_logs.csv: one row for each logged epoch. Columns missing in a row are empty.
type CSVLog struct {
	Columns []string // without step
	Rows    []CSVRow
}

// CSVRow is a row of a [CSVLog].
type CSVRow struct {
	Step   int
	Values Logs
}

// Add appends a row. New names become columns.
func (l *CSVLog) Add(step int, values Logs) {
	for _, v := range values {
		if !slices.Contains(l.Columns, v.Name) {
			l.Columns = append(l.Columns, v.Name)
		}
	}
	l.Rows = append(l.Rows, CSVRow{step, values})
}

// text returns the file as pandas writes it.
func (l *CSVLog) text() string {
	table := [][]string{append([]string{"step"}, l.Columns...)}
	for _, row := range l.Rows {
		cells := []string{strconv.Itoa(row.Step)}
		for _, c := range l.Columns {
			cell := ""
			if v, ok := row.Values.find(c); ok && !math.IsNaN(v.Value) {
				cell = v.String()
			}
			cells = append(cells, cell)
		}
		table = append(table, cells)
	}
	var b strings.Builder
	_ = csv.NewWriter(&b).WriteAll(table) // writing to a strings.Builder never fails
	return b.String()
}

// Save writes the file atomically.
func (l *CSVLog) Save(path string) error { return prefixed(configfile.Write(path, []byte(l.text()))) }

// LoadCSVLog reads a training_logs.csv. An empty cell means no value.
func LoadCSVLog(path string) (*CSVLog, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, prefixed(err)
	}
	l, err := parseCSV(string(text))
	if err != nil {
		return nil, fmt.Errorf("hezar: %s: %w", path, err)
	}
	return l, nil
}

// LoadCSVLogs reads training_logs.csv from a folder of logs; empty means that of this run.
func (t *Trainer[S, B]) LoadCSVLogs(dir string) (*CSVLog, error) {
	if dir == "" {
		dir = t.State.LogsDir
	}
	return LoadCSVLog(filepath.Join(dir, csvFile))
}

func parseCSV(text string) (*CSVLog, error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || records[0][0] != "step" {
		return nil, errors.New(`the first column is not called "step": this is no log of Hezar's trainer`)
	}
	l := &CSVLog{Columns: records[0][1:]}
	for i, record := range records[1:] {
		step, err := strconv.Atoi(record[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: the step is %q; want an integer", i+2, record[0])
		}
		row := CSVRow{Step: step}
		for j, cell := range record[1:] {
			if cell == "" {
				continue
			}
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d, %s: %q is no number", i+2, l.Columns[j], cell)
			}
			_, notWhole := strconv.Atoi(cell)
			row.Values = append(row.Values, Value{l.Columns[j], v, notWhole == nil})
		}
		l.Rows = append(l.Rows, row)
	}
	return l, nil
}

// openCSV returns the log of the run that is resumed, up to the step at which it resumes.
func openCSV(path string, step int) (*CSVLog, error) {
	l, err := LoadCSVLog(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &CSVLog{}, nil
	}
	if err == nil {
		l.Rows = slices.DeleteFunc(l.Rows, func(row CSVRow) bool { return row.Step > step })
	}
	return l, err
}
