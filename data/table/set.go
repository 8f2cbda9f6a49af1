package table

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Set is the data set of a table's rows.
type Set struct {
	path string
	rows []Row
}

// Open reads a table and checks that every file in it exists. If some do not, the error is a
// [*MissingFilesError] that lists them all.
func Open(path string, o Options) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	defer f.Close()
	rows, err := Read(f, o)
	if err != nil {
		return nil, fmt.Errorf("table: %s: %w", path, err)
	}
	dir := o.Dir
	if dir == "" {
		dir = filepath.Dir(path)
	}
	missing := &MissingFilesError{Table: path, Rows: len(rows)}
	for i := range rows {
		row := &rows[i]
		if row.Path = filepath.FromSlash(row.File); !filepath.IsAbs(row.Path) {
			row.Path = filepath.Join(dir, row.Path)
		}
		info, err := os.Stat(row.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir():
			missing.Missing = append(missing.Missing, *row)
		case err != nil:
			return nil, fmt.Errorf("table: %s: line %d: %w", path, row.Line, err)
		}
	}
	if len(missing.Missing) > 0 {
		return nil, missing
	}
	return &Set{path: path, rows: rows}, nil
}

// Len returns the number of rows.
func (s *Set) Len() int { return len(s.rows) }

// At returns row i.
func (s *Set) At(i int) (Row, error) { return s.rows[i], nil }

// Describe says which file row i is about and where it is in the table.
func (s *Set) Describe(i int) string {
	return fmt.Sprintf("%s, line %d of %s", s.rows[i].Path, s.rows[i].Line, s.path)
}

// Characters returns the characters of all labels, each once, in the order of their code points.
// This is the character set that a recognizer of these labels needs.
func (s *Set) Characters() []rune {
	seen := make(map[rune]bool)
	for _, row := range s.rows {
		for _, r := range row.Label {
			seen[r] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// MissingFilesError lists the files of a table that do not exist or are folders.
type MissingFilesError struct {
	Table   string
	Rows    int   // number of rows in the table
	Missing []Row // with their paths
}

func (e *MissingFilesError) Error() string {
	const limit = 5
	var b strings.Builder
	fmt.Fprintf(&b, "table: %s: %d of its %d files are missing:", e.Table, len(e.Missing), e.Rows)
	for _, row := range e.Missing[:min(limit, len(e.Missing))] {
		fmt.Fprintf(&b, "\n\tline %d: %s", row.Line, row.Path)
	}
	if more := len(e.Missing) - limit; more > 0 {
		fmt.Fprintf(&b, "\n\tand %d more", more)
	}
	return b.String()
}

// Is reports whether target is fs.ErrNotExist, so that errors.Is(err, fs.ErrNotExist) holds.
func (e *MissingFilesError) Is(target error) bool { return target == fs.ErrNotExist }
