package table

import (
	"errors"
	"fmt"
	"io"
	"iter"
)

// Scan returns the rows of a table in order, reading it once: from a pipe, a decompressor or a
// network. The Format must set Syntax. Scan holds one row at a time. The first error, an [*Error],
// ends the sequence, which can be ranged over only once.
func Scan[T any](in io.Reader, f Format) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := scan(in, f, yield); err != nil {
			yield(none, fmt.Errorf("table: %w", err))
		}
	}
}

func scan[T any](in io.Reader, f Format, yield func(T, error) bool) error {
	if f.Syntax == ByExtension {
		return errors.New("Scan needs Format.Syntax, as there is no file name to go by")
	}
	f, err := f.withDefaults("")
	if err != nil {
		return err
	}
	lines := newSplitter(in, f, 0)
	if lines.fill(); lines.err != nil && !errors.Is(lines.err, io.EOF) {
		return lines.err
	}
	for lines.err == nil && lines.to < 4 { // enough for a byte order mark or a magic number
		lines.fill()
	}
	if lines.from, err = bomSize(lines.buffer[:lines.to], f.Encoding); err != nil {
		return err
	}
	names := f.Columns
	if err := unique(names); err != nil {
		return err
	}
	if names == nil && f.Syntax != JSONL {
		row, _, err := lines.next()
		if errors.Is(err, io.EOF) {
			return errNoHeader
		}
		var text string
		if err == nil {
			text, err = f.Encoding.text(row)
		}
		if err == nil {
			names, err = fields(text, f, nil)
		}
		if err != nil {
			return &Error{Line: lines.line, Err: err}
		}
	}
	decode, err := newDecoder[T](f, names)
	if err != nil {
		return err
	}
	for {
		row, _, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var text string
		if err == nil {
			text, err = f.Encoding.text(row)
		}
		var value T
		if err == nil {
			value, err = decode(text)
		}
		if err != nil {
			return &Error{Line: lines.line, Err: err}
		}
		if !yield(value, nil) {
			return nil
		}
	}
}
