package table

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// ErrChanged is wrapped by the error about a file that has changed since it was opened.
var ErrChanged = errors.New("the file has changed since it was opened; its rows are not where they were")

// ErrClosed is returned for rows of a closed table.
var ErrClosed = errors.New("the table has been closed")

// Rows is the data set of the rows of a file, each a T. Any row can be read directly, since the
// positions of all rows are known: from memory for a small file, from the file for a large one. Its
// methods may be called by several goroutines at a time.
type Rows[T any] struct {
	path   string
	format Format
	names  []string // of the columns; nil for JSONL
	decode decoder[T]
	places offsets
	size   int64
	time   time.Time // of the last change

	content []byte   // of a small file; nil for a large one
	file    *os.File // of a large one
	closed  atomic.Bool
	feeds   feeds
}

// OpenRows opens a table of CSV, TSV, JSONL or lines of text. It reads the file once, to find the
// rows; each row is decoded when it is requested. The fields of a struct T name the columns to
// read:
//
//	type Message struct {
//		Label string `table:"label"`
//		Text  string `table:"text"`
//	}
//	messages, err := table.OpenRows[Message]("sms.tsv", table.Format{Columns: []string{"label", "text"}})
//
// The fields may be strings, bools, numbers and pointers to them; for JSONL also slices of these
// and json.RawMessage. The tag `table:"name,optional"` is for a column that may be missing, and
// `table:"-"` for a field that is not a column. A field without a tag reads the column with the
// field's name, in upper or lower case.
//
// T may also be map[string]string or []string; for JSONL, map[string]json.RawMessage or
// json.RawMessage; and for Lines, string.
func OpenRows[T any](path string, f Format) (*Rows[T], error) {
	r := &Rows[T]{path: path}
	if err := r.open(f); err != nil {
		_ = r.Close() // the first error counts
		return nil, fmt.Errorf("table: %s: %w", path, bare(err))
	}
	return r, nil
}

// bare removes the path from an error to which the caller adds it.
func bare(err error) error {
	if path, ok := err.(*os.PathError); ok { //nolint:errorlint // only the outermost error may lose its path
		return path.Err
	}
	return err
}

func (r *Rows[T]) open(f Format) (err error) {
	file, info, err := regularfile.Open(r.path)
	if errors.Is(err, regularfile.ErrKind) {
		return fmt.Errorf("%w, so its rows have no positions; read it with Scan", bare(err))
	}
	if err != nil {
		return err
	}
	r.file = file
	if r.format, err = f.withDefaults(r.path); err != nil {
		return err
	}
	r.size, r.time = info.Size(), info.ModTime()
	if r.size <= r.format.Memory {
		if r.content, err = io.ReadAll(io.LimitReader(r.file, r.size)); err != nil {
			return err
		}
		r.size = int64(len(r.content))
		if err := r.file.Close(); err != nil {
			return err
		}
		r.file = nil
	}
	start, names, err := header(r.stream(0, r.size), r.format)
	if err != nil {
		return err
	}
	r.names = names
	if r.decode, err = newDecoder[T](r.format, r.names); err != nil {
		return err
	}
	return r.find(start)
}

// stream returns the bytes from begin to end.
func (r *Rows[T]) stream(begin, end int64) io.Reader {
	if r.content != nil {
		return bytes.NewReader(r.content[begin:end])
	}
	return io.NewSectionReader(r.file, begin, end-begin)
}

// errNoHeader is the error about an empty file that should have a header. A file truncated to
// nothing must not pass for a table without rows.
var errNoHeader = errors.New("the file is empty, expected a first line that names the columns; write it again, or " +
	"name the columns in Format.Columns")

// header reads what comes before the first row: a byte order mark and the names of the columns.
func header(in io.Reader, f Format) (start int64, names []string, err error) {
	buffered := bufio.NewReader(in)
	begin, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, err
	}
	size, err := bomSize(begin, f.Encoding)
	if err != nil {
		return 0, nil, err
	}
	start = int64(size)
	if f.Columns != nil || f.Syntax == JSONL {
		return start, f.Columns, unique(f.Columns)
	}
	if _, err := buffered.Discard(size); err != nil {
		return 0, nil, err
	}
	lines := newSplitter(buffered, f, start)
	row, _, err := lines.next()
	if errors.Is(err, io.EOF) {
		return 0, nil, errNoHeader
	}
	if err != nil {
		return 0, nil, &Error{Line: lines.line, Err: err}
	}
	text, err := f.Encoding.text(row)
	if err == nil {
		names, err = fields(text, f, nil)
	}
	if err != nil {
		return 0, nil, &Error{Line: lines.line, Err: fmt.Errorf("the names of the columns: %w", err)}
	}
	return lines.place(), names, nil
}

// place returns where the next row begins.
func (s *splitter) place() int64 { return s.base + int64(s.from) }

// unique returns an error if two columns have the same name.
func unique(names []string) error {
	for k, name := range names {
		if slices.Contains(names[:k], name) {
			return fmt.Errorf("two columns are called %q", name)
		}
	}
	return nil
}

// find finds the positions of the rows, or loads them from the index file if it matches.
func (r *Rows[T]) find(start int64) (err error) {
	key := indexKey(r.size, r.time, start, r.format)
	if r.format.IndexFile != "" {
		if err := replaceable(r.format.IndexFile); err != nil {
			return fmt.Errorf("Format.IndexFile: %w", err)
		}
		if r.places.load(r.format.IndexFile, key) {
			return nil
		}
	}
	rows := newSplitter(r.stream(start, r.size), r.format, start)
	for {
		_, offset, err := rows.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &Error{Line: r.line(offset), Err: err}
		}
		r.places.add(offset)
	}
	if r.format.IndexFile == "" {
		return nil
	}
	if err := r.places.save(r.format.IndexFile, key); err != nil {
		return fmt.Errorf("Format.IndexFile: %w", err)
	}
	return nil
}

// Len returns the number of rows.
func (r *Rows[T]) Len() int { return r.places.len() }

// Columns returns the names of the columns in order; nil for JSONL, where each row has its own.
func (r *Rows[T]) Columns() []string { return slices.Clone(r.names) }

// At returns row i. If something is wrong with the row, the error is an [*Error].
func (r *Rows[T]) At(i int) (row T, err error) {
	begin, end := r.places.at(i), r.size
	if i+1 < r.Len() {
		end = r.places.at(i + 1)
	}
	text, err := r.read(begin, end)
	if err == nil {
		if size, _ := findRow(text, r.format.quoted(), r.format.Separator); size >= 0 {
			text = text[:size]
		}
		row, err = r.parse(trimReturn(text))
	}
	if err != nil {
		return row, r.wrap(begin, err)
	}
	return row, nil
}

// read returns the bytes between two places.
func (r *Rows[T]) read(begin, end int64) ([]byte, error) {
	switch {
	case r.closed.Load():
		return nil, ErrClosed
	case r.content != nil:
		return r.content[begin:end], nil
	}
	// Any number of empty lines may follow the row, so that end may be far away.
	end = min(end, begin+int64(r.format.MaxRecord)+2)
	text := make([]byte, end-begin)
	if _, err := r.file.ReadAt(text, begin); err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrChanged
		}
		return nil, err
	}
	return text, r.unchanged()
}

// unchanged refuses a file that was written to after it was opened.
func (r *Rows[T]) unchanged() error {
	if r.file == nil {
		return nil
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != r.size || !info.ModTime().Equal(r.time) {
		return ErrChanged
	}
	return nil
}

// parse decodes a row.
func (r *Rows[T]) parse(text []byte) (row T, err error) {
	s, err := r.format.Encoding.text(text)
	if err != nil {
		return row, err
	}
	return r.decode(s)
}

// wrap adds the file and the line to an error.
func (r *Rows[T]) wrap(offset int64, err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrChanged) || errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("table: %s: %w", r.path, err)
	}
	return fmt.Errorf("table: %s: %w", r.path, &Error{Line: r.line(offset), Err: err})
}

// line returns the number of the line at offset. Only errors and [Rows.Describe] need it, so lines
// are not counted earlier.
func (r *Rows[T]) line(offset int64) int { return 1 + r.feeds.before(min(offset, r.size), r.stream) }

// Describe says where row i is.
func (r *Rows[T]) Describe(i int) string {
	return fmt.Sprintf("line %d of %s", r.line(r.places.at(i)), r.path)
}

// Samples returns the rows in order, without the first skip, which are not read. It is the table as
// a stream, the same in every pass. A row that cannot be parsed is an error of one sample
// ([data.OneSample]), and the following rows are still delivered. Any other error ends the pass.
func (r *Rows[T]) Samples(_, skip int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if skip < 0 {
			yield(none, fmt.Errorf("table: %s: cannot skip %d rows", r.path, skip))
			return
		}
		if skip >= r.Len() {
			return
		}
		if r.closed.Load() {
			yield(none, r.wrap(0, ErrClosed))
			return
		}
		begin := r.places.at(skip)
		rows := newSplitter(r.stream(begin, r.size), r.format, begin)
		for i := skip; i < r.Len(); i++ {
			text, offset, err := rows.next()
			if err == nil && offset != r.places.at(i) || errors.Is(err, io.EOF) {
				err = ErrChanged
			}
			if err == nil && i%1024 == 0 {
				err = r.unchanged()
			}
			if err != nil {
				yield(none, r.wrap(offset, err))
				return
			}
			row, err := r.parse(text)
			if err != nil {
				row, err = none, data.OneSample(r.wrap(offset, err))
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// Close closes the file of a large table. Rows requested afterwards give [ErrClosed].
func (r *Rows[T]) Close() error {
	if r.closed.Swap(true) || r.file == nil {
		return nil
	}
	return r.file.Close()
}
