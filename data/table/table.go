package table

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options configures [Read] and [Open]. The zero value reads lines that consist of a file, a tab
// and a label.
type Options struct {
	// Separator separates the columns; zero means a tab.
	Separator rune

	// Header says that the first line names the columns. The columns File and Label are then found
	// by name, and others are ignored. Without a header there must be exactly these two columns, in
	// this order.
	Header bool

	// File and Label name the columns of a table with a header; empty means "file" and "label".
	File, Label string

	// AllowEmpty allows rows with an empty label, which are otherwise an error.
	AllowEmpty bool

	// Dir is the folder that relative file names refer to; empty means the folder of the table.
	// [Read] does not use it.
	Dir string
}

// Row is a line of a table.
type Row struct {
	File  string // as written in the table
	Label string
	Line  int    // line in the table; the first is 1
	Path  string // where the file is; set by [Open] only
}

// Error says what is wrong with a line of a table.
type Error struct {
	Line int // the first is 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// ErrUTF8 is wrapped by the error about a line that is not valid UTF-8.
var ErrUTF8 = errors.New("not valid UTF-8; convert the table to UTF-8")

// maxLine is the longest line; a longer one means that the file is not a table.
const maxLine = 1 << 20

// Read reads the rows of a table. If something is wrong with a line, the error is an [*Error].
func Read(r io.Reader, o Options) ([]Row, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3) // the peeked bytes are in the buffer
	}
	next, err := records(in, o.Separator)
	if err != nil {
		return nil, err
	}
	at := places{count: 2, label: 1}
	if o.Header {
		fields, line, err := next()
		if errors.Is(err, io.EOF) {
			return nil, &Error{Line: 1, Err: errors.New("the table is empty, expected a header")}
		}
		if err != nil {
			return nil, err
		}
		if at, err = o.find(fields); err != nil {
			return nil, &Error{Line: line, Err: err}
		}
	}
	var rows []Row
	for {
		fields, line, err := next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row, err := at.row(fields, o.AllowEmpty)
		if err != nil {
			return nil, &Error{Line: line, Err: err}
		}
		row.Line = line
		rows = append(rows, row)
	}
}

// places says where in a line the fields are.
type places struct{ count, file, label int }

// find looks up the columns in a header.
func (o Options) find(header []string) (places, error) {
	c := places{count: len(header)}
	for _, want := range []struct {
		name  string
		index *int
	}{{cmp.Or(o.File, "file"), &c.file}, {cmp.Or(o.Label, "label"), &c.label}} {
		*want.index = slices.Index(header, want.name)
		if *want.index < 0 {
			return c, fmt.Errorf("no column %q; the header has %q", want.name, header)
		}
		if slices.Contains(header[*want.index+1:], want.name) {
			return c, fmt.Errorf("two columns %q in the header", want.name)
		}
	}
	return c, nil
}

// row makes a Row of the fields of a line.
func (c places) row(fields []string, allowEmpty bool) (Row, error) {
	if len(fields) != c.count {
		return Row{}, fmt.Errorf("%d columns, expected %d: %.100q", len(fields), c.count, fields)
	}
	row := Row{File: fields[c.file], Label: fields[c.label]}
	switch {
	case row.File == "":
		return row, errors.New("the file name is empty")
	case strings.ContainsRune(row.File, 0):
		return row, fmt.Errorf("the file name %q contains a zero byte", row.File)
	case row.Label == "" && !allowEmpty:
		return row, fmt.Errorf("the label of %q is empty; set AllowEmpty if that is intended", row.File)
	}
	return row, nil
}

// records returns a function that returns the fields of the next line and its number, and io.EOF at
// the end.
func records(in *bufio.Reader, separator rune) (func() ([]string, int, error), error) {
	if separator == 0 || separator == '\t' {
		return tabbed(in), nil
	}
	limit := &limited{source: in}
	r := csv.NewReader(limit)
	r.Comma = separator
	r.FieldsPerRecord = -1 // columns are counted by row, whose error says more
	switch separator {
	case '"', '\r', '\n', utf8.RuneError:
		return nil, fmt.Errorf("table: Options.Separator is %q, which cannot separate columns", separator)
	}
	if !utf8.ValidRune(separator) {
		return nil, fmt.Errorf("table: Options.Separator is %d, which is not a character", separator)
	}
	after := 0 // the line at which the previous record ends
	return func() ([]string, int, error) {
		limit.end = r.InputOffset() + maxLine
		fields, err := r.Read()
		var parse *csv.ParseError
		switch {
		case errors.Is(err, errTooLong):
			return nil, after + 1, &Error{Line: after + 1, Err: err}
		case errors.As(err, &parse):
			return nil, parse.Line, &Error{Line: parse.Line, Err: parse.Err}
		case err != nil:
			return nil, 0, err
		}
		line, _ := r.FieldPos(0)
		after = line
		for _, f := range fields {
			after += strings.Count(f, "\n")
			if !utf8.ValidString(f) {
				return nil, line, &Error{Line: line, Err: ErrUTF8}
			}
		}
		return fields, line, nil
	}, nil
}

var errTooLong = fmt.Errorf("longer than %d bytes; is this a table, and is every quote closed?", maxLine)

// limited reads up to end, and a little further since csv.Reader reads ahead. Without a limit,
// csv.Reader would read everything after a quote that is never closed as one record.
type limited struct {
	source    io.Reader
	read, end int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.read > l.end {
		return 0, errTooLong
	}
	n, err := l.source.Read(p)
	l.read += int64(n)
	return n, err
}

// tabbed reads lines without any quoting.
func tabbed(in *bufio.Reader) func() ([]string, int, error) {
	line := 0
	return func() ([]string, int, error) {
		for {
			line++
			text, err := readLine(in)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					err = &Error{Line: line, Err: err}
				}
				return nil, line, err
			}
			if text == "" {
				continue
			}
			if !utf8.ValidString(text) {
				return nil, line, &Error{Line: line, Err: ErrUTF8}
			}
			return strings.Split(text, "\t"), line, nil
		}
	}
}

// readLine returns the next line without its end.
func readLine(in *bufio.Reader) (string, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > maxLine:
			return "", fmt.Errorf("longer than %d bytes; is this a table?", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(text) == 0):
			return "", err
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
	}
}
