package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
	"github.com/gotrainer/gotrainer/examples/crnn_plates/plates"
	"github.com/gotrainer/gotrainer/models/crnn"
)

// pictures is a data set of labeled images.
type pictures = data.Dataset[crnn.Picture]

// rendered returns a data set of n synthetic plates, rendered on demand.
func rendered(n int, seed uint64, o plates.Options) pictures {
	return data.Map(plates.Dataset(n, seed, o), func(s plates.Sample) (crnn.Picture, error) {
		return crnn.Picture{Image: s.Image, Text: s.Label}, nil
	})
}

// labeledFiles returns the files of -train with their labels.
func labeledFiles(o options) ([]crnn.File, error) {
	if o.labelsFromNames {
		return namedAfterLabels(o.train)
	}
	name := o.table
	if name == "" {
		for _, candidate := range []string{filepath.Join(o.train, "train.tsv"),
			filepath.Join(filepath.Dir(filepath.Clean(o.train)), "train.tsv")} {
			if _, err := os.Stat(candidate); err == nil {
				name = candidate
				break
			}
		}
		if name == "" {
			return nil, fmt.Errorf("there is no train.tsv in or next to %s: name the table with -table, or use "+
				"-labels-from-names", o.train)
		}
	}
	return readTable(name, o.train)
}

func namedAfterLabels(dir string) ([]crnn.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []crnn.File
	for _, e := range entries {
		if isPicture(e.Name()) {
			files = append(files, crnn.File{Path: filepath.Join(dir, e.Name()), Text: strings.TrimSuffix(e.Name(),
				filepath.Ext(e.Name()))})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no PNG or JPEG files", dir)
	}
	return files, nil
}

func isPicture(name string) bool {
	return slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(filepath.Ext(name)))
}

// readTable reads a table whose files are next to it, or in dir. A first line that begins with
// "file" names the columns; the second column is the label.
func readTable(name, dir string) ([]crnn.File, error) {
	columns, err := header(name)
	if err != nil {
		return nil, err
	}
	form := table.Options{Header: columns != nil}
	if form.Header {
		form.File, form.Label = columns[0], columns[1]
	}
	set, err := table.Open(name, form)
	if missing := (*table.MissingFilesError)(nil); errors.As(err, &missing) && dir != "" {
		form.Dir = dir
		set, err = table.Open(name, form)
	}
	if err != nil {
		return nil, err
	}
	files := make([]crnn.File, set.Len())
	for i := range files {
		row, err := set.At(i)
		if err != nil {
			return nil, err
		}
		files[i] = crnn.File{Path: row.Path, Text: row.Label}
	}
	return files, nil
}

// header returns the names of the columns, or nil if the first line is already a row.
func header(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	columns := strings.Split(strings.TrimRight(strings.TrimPrefix(line, "\ufeff"), "\r\n"), "\t")
	if columns[0] != "file" || len(columns) < 2 {
		return nil, nil
	}
	return columns, nil
}

// charsetOf reads the characters from a file, one per line; without a path it collects those of the
// labels.
func charsetOf(path string, files []crnn.File) ([]string, error) {
	charset := []string{""}
	if path == "" {
		seen := map[string]bool{}
		for _, f := range files {
			for _, r := range f.Text {
				seen[string(r)] = true
			}
		}
		characters := make([]string, 0, len(seen))
		for c := range seen {
			characters = append(characters, c)
		}
		slices.Sort(characters)
		return append(charset, characters...), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		c := lines.Text() // not trimmed: a space is a character too
		if n == 1 {
			c = strings.TrimPrefix(c, "\ufeff")
		}
		switch utf8.RuneCountInString(c) {
		case 0:
		case 1:
			charset = append(charset, c)
		default:
			return nil, fmt.Errorf("%s:%d: %q; want one character a line", path, n, c)
		}
	}
	return charset, lines.Err()
}
