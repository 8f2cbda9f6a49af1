package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// splitter splits a stream of bytes into rows: lines, or several lines joined by quotes. It holds
// one row and a buffer.
type splitter struct {
	r         io.Reader
	quoted    bool // line breaks in quotes do not end a row
	json      bool // a line of spaces is empty
	separator byte
	most      int // length of the longest permitted row

	buffer   []byte
	from, to int   // buffer[from:to] has not been returned yet
	base     int64 // position of buffer[0] in the stream
	line     int   // of the row that next returned, or that it failed at; the first is 1
	breaks   int   // line feeds before the next row
	err      error // what ended the stream
}

func newSplitter(r io.Reader, f Format, offset int64) *splitter {
	return &splitter{r: r, quoted: f.quoted(), json: f.Syntax == JSONL, separator: f.Separator, most: f.MaxRecord,
		buffer: make([]byte, 64<<10), base: offset}
}

// next returns the next row that is not empty, without its line end, and its position in the
// stream. The row is valid until the next call.
func (s *splitter) next() (row []byte, offset int64, err error) {
	for {
		rest := s.buffer[s.from:s.to]
		size, skip := findRow(rest, s.quoted, s.separator)
		s.line = s.breaks + 1
		switch {
		case size > s.most || size < 0 && len(rest) > s.most:
			return nil, s.base + int64(s.from), s.tooLong(rest)
		case size >= 0:
		case s.err == nil:
			s.fill()
			continue
		case !errors.Is(s.err, io.EOF):
			return nil, s.base + int64(s.to), s.err
		case len(rest) == 0:
			return nil, s.base + int64(s.to), io.EOF
		default: // the last line has no end
			size, skip = len(rest), len(rest)
		}
		offset = s.base + int64(s.from)
		s.from += skip
		if s.breaks++; s.quoted {
			s.breaks += bytes.Count(rest[:size], []byte("\n"))
		}
		if row = trimReturn(rest[:size]); !s.empty(row) {
			return row, offset, nil
		}
	}
}

func (s *splitter) empty(row []byte) bool {
	return len(row) == 0 || s.json && len(bytes.TrimLeft(row, " \t\r")) == 0
}

// fill reads more into the buffer, and makes it larger if a row fills it.
func (s *splitter) fill() {
	if s.from > 0 {
		s.base += int64(s.from)
		s.to = copy(s.buffer, s.buffer[s.from:s.to])
		s.from = 0
	}
	if s.to == len(s.buffer) {
		s.buffer = append(s.buffer, make([]byte, len(s.buffer))...)
	}
	for range 100 { // a reader may return nothing, but not for ever
		n, err := s.r.Read(s.buffer[s.to:])
		s.to += n
		s.err = err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

func (s *splitter) tooLong(rest []byte) error {
	if s.quoted && bytes.IndexByte(rest, '\n') >= 0 {
		return fmt.Errorf("a row is longer than %d bytes and holds line breaks; is a quote never closed? If quotes are "+
			"part of the text, set Format.Quoting to QuoteNone", s.most)
	}
	return fmt.Errorf("a row is longer than %d bytes; is this a table? If so, set Format.MaxRecord", s.most)
}

// findRow returns the size of the first row in text without its line feed, and with it; -1 if the
// row does not end in text.
func findRow(text []byte, quoted bool, separator byte) (size, skip int) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return -1, 0
	}
	if !quoted || bytes.IndexByte(text[:end], '"') < 0 {
		return end, end + 1
	}
	inside, start := false, true // inside quotes, at the start of a field
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside:
			next := bytes.IndexByte(text[i:], '"')
			if next < 0 {
				return -1, 0
			}
			if i += next; i+1 < len(text) && text[i+1] == '"' {
				i++ // doubled: a quote as text
			} else {
				inside = false
			}
		case c == '\n':
			return i, i + 1
		case c == separator:
			start = true
		case c == '"' && start:
			inside, start = true, false
		default:
			start = false
		}
	}
	return -1, 0
}

func trimReturn(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// text decodes the bytes of a row.
func (e Encoding) text(row []byte) (string, error) {
	if e == Latin1 {
		runes := make([]rune, len(row))
		for i, b := range row {
			runes[i] = rune(b)
		}
		return string(runes), nil
	}
	if !utf8.Valid(row) {
		return "", fmt.Errorf("%w, or set Format.Encoding if it is Latin1", ErrUTF8)
	}
	return string(row), nil
}

// bomSize returns the size of the byte order mark at the start of a table, and refuses files that
// are clearly not text.
func bomSize(start []byte, e Encoding) (int, error) {
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")) && e == UTF8:
		return 3, nil
	case bytes.HasPrefix(start, []byte("\xff\xfe")) && e == UTF8, bytes.HasPrefix(start, []byte("\xfe\xff")) &&
		e == UTF8:
		return 0, fmt.Errorf("it is written in UTF-16: %w", ErrUTF8)
	case e == UTF8 && len(start) > 3 && (start[0] == 0 && start[2] == 0 || start[1] == 0 && start[3] == 0):
		return 0, fmt.Errorf("every second byte is zero, as in UTF-16: %w", ErrUTF8)
	case bytes.HasPrefix(start, []byte("\x1f\x8b\x08")):
		return 0, errors.New("it is compressed by gzip, where no row can be found without reading everything before it; " +
			"decompress it")
	case bytes.HasPrefix(start, []byte("PAR1")):
		return 0, errors.New("it is a Parquet file; open it with package data/parquet")
	}
	return 0, nil
}
