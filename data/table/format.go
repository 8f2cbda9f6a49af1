package table

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Syntax says how rows are written.
type Syntax int

// The syntaxes of tables.
const (
	ByExtension Syntax = iota // .csv, .tsv, .tab, .jsonl, .ndjson, and .txt for Lines
	CSV                       // columns between separators, which fields in double quotes may hold too (RFC 4180)
	TSV                       // columns between tabs; a quote is part of the text
	JSONL                     // a JSON object in each line, with the columns as keys
	Lines                     // each line is one column, "text"
)

func (s Syntax) String() string {
	names := [...]string{"ByExtension", "CSV", "TSV", "JSONL", "Lines"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("Syntax(%d)", int(s))
	}
	return names[s]
}

// Quoting says what a double quote means.
type Quoting int

// The ways to quote.
const (
	QuoteDefault Quoting = iota // QuoteMinimal for CSV, QuoteNone for TSV
	QuoteMinimal                // a field may stand in double quotes: Python's csv.QUOTE_MINIMAL
	QuoteNone                   // a quote is part of the text: csv.QUOTE_NONE, for GLUE's files with their unpaired quotes
)

// Encoding says how the bytes of a text are interpreted.
type Encoding int

// The encodings.
const (
	UTF8   Encoding = iota // with or without a byte order mark; anything else is an error
	Latin1                 // ISO-8859-1: each byte is a character
)

// Format says how a table is written. The zero value depends on the extension of the file.
type Format struct {
	Syntax   Syntax
	Quoting  Quoting
	Encoding Encoding

	// Separator separates the columns of CSV; zero means a comma. It must be an ASCII character.
	Separator byte

	// Columns names the columns of a CSV or TSV file without a header; nil means that the first
	// line names them.
	Columns []string

	// MaxRecord is the length of the longest permitted row in bytes. A longer row is an error,
	// since it usually means that the file is not a table or a quote is never closed. Zero means 1
	// MiB; the maximum is 64 MiB.
	MaxRecord int

	// Memory is the size in bytes up to which [OpenRows] keeps a file in memory. For larger files
	// it keeps only the positions of the rows, four bytes each. Zero means 64 MiB; with a negative
	// number no file is kept in memory.
	Memory int64

	// IndexFile is a file in which [OpenRows] stores those positions, so that a large table opens
	// immediately the next time, for example in a resumed run. It is rewritten when the table has
	// changed. A file that is not an index is refused and left unchanged. Empty means that no index
	// is written.
	IndexFile string
}

const (
	defaultMaxRecord = 1 << 20
	largestMaxRecord = 64 << 20
	defaultMemory    = 64 << 20
)

// withDefaults checks the format and fills in what the zero values mean for a file of this name.
func (f Format) withDefaults(path string) (Format, error) {
	if f.Syntax == ByExtension {
		// Of "train.csv.gz", the extension that counts is .csv: the content is then refused with advice.
		switch extension := filepath.Ext(strings.TrimSuffix(strings.ToLower(path), ".gz")); extension {
		case ".csv":
			f.Syntax = CSV
		case ".tsv", ".tab":
			f.Syntax = TSV
		case ".jsonl", ".ndjson":
			f.Syntax = JSONL
		case ".txt":
			f.Syntax = Lines
		default:
			return f, fmt.Errorf("the extension %q is not .csv, .tsv, .tab, .jsonl, .ndjson or .txt; set Format.Syntax",
				extension)
		}
	}
	switch {
	case f.Syntax < 0 || f.Syntax > Lines, f.Quoting < 0 || f.Quoting > QuoteNone, f.Encoding < 0 ||
		f.Encoding > Latin1:
		return f, fmt.Errorf("Format{Syntax: %d, Quoting: %d, Encoding: %d}: no such constant", f.Syntax, f.Quoting,
			f.Encoding)
	case f.MaxRecord < 0 || f.MaxRecord > largestMaxRecord:
		return f, fmt.Errorf("Format.MaxRecord is %d; it must be from 1 to %d, or 0 for %d", f.MaxRecord,
			largestMaxRecord, defaultMaxRecord)
	case f.Separator != 0 && f.Syntax != CSV && !(f.Syntax == TSV && f.Separator == '\t'):
		return f, fmt.Errorf("Format.Separator is %q, but only CSV has one to choose", f.Separator)
	case f.Separator == '"' || f.Separator == '\r' || f.Separator == '\n' || f.Separator >= 0x80:
		return f, fmt.Errorf("Format.Separator is %q, which cannot separate columns", f.Separator)
	case f.Columns != nil && f.Syntax == JSONL:
		return f, fmt.Errorf("Format.Columns is %q, but the keys of JSONL name its columns", f.Columns)
	case f.Columns != nil && f.Syntax == Lines && len(f.Columns) != 1:
		return f, fmt.Errorf("Format.Columns is %q, but Lines has one column", f.Columns)
	case f.Quoting == QuoteMinimal && (f.Syntax == JSONL || f.Syntax == Lines):
		return f, fmt.Errorf("Format.Quoting is QuoteMinimal, but %v has no quoting to choose", f.Syntax)
	}
	if f.MaxRecord == 0 {
		f.MaxRecord = defaultMaxRecord
	}
	if f.Memory == 0 {
		f.Memory = defaultMemory
	}
	if f.Quoting == QuoteDefault {
		if f.Quoting = QuoteNone; f.Syntax == CSV {
			f.Quoting = QuoteMinimal
		}
	}
	switch {
	case f.Syntax == TSV:
		f.Separator = '\t'
	case f.Syntax == CSV && f.Separator == 0:
		f.Separator = ','
	case f.Syntax == Lines && f.Columns == nil:
		f.Columns = []string{"text"}
	}
	return f, nil
}

// quoted reports whether a row may hold line breaks.
func (f Format) quoted() bool { return f.Quoting == QuoteMinimal }
