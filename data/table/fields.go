package table

import (
	"errors"
	"fmt"
	"strings"
)

// fields splits a row into its fields, which share its memory unless they hold doubled quotes. It
// reuses into.
func fields(row string, f Format, into []string) ([]string, error) {
	into = into[:0]
	if f.Syntax == Lines {
		return append(into, row), nil
	}
	if !f.quoted() || strings.IndexByte(row, '"') < 0 {
		for {
			end := strings.IndexByte(row, f.Separator)
			if end < 0 {
				return append(into, row), nil
			}
			into = append(into, row[:end])
			row = row[end+1:]
		}
	}
	for {
		if !strings.HasPrefix(row, `"`) {
			end := strings.IndexByte(row, f.Separator)
			if end < 0 {
				return append(into, row), nil
			}
			into, row = append(into, row[:end]), row[end+1:]
			continue
		}
		field, rest, err := unquote(row)
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", len(into)+1, err)
		}
		into = append(into, field)
		if rest == "" {
			return into, nil
		}
		if rest[0] != f.Separator {
			return nil, fmt.Errorf("column %d: text after its closing quote, %.20q; if quotes are part of the text, set "+
				"Format.Quoting to QuoteNone", len(into), rest)
		}
		row = rest[1:]
	}
}

// unquote returns the field in quotes at the start of a row, and what follows it.
func unquote(row string) (field, rest string, err error) {
	body := row[1:]
	doubled := false
	for at := 0; ; {
		end := strings.IndexByte(body[at:], '"')
		if end < 0 {
			return "", "", errors.New("a quote is opened and never closed; if quotes are part of the text, set " +
				"Format.Quoting to QuoteNone")
		}
		end += at
		if end+1 < len(body) && body[end+1] == '"' {
			doubled, at = true, end+2
			continue
		}
		if field = body[:end]; doubled {
			field = strings.ReplaceAll(field, `""`, `"`)
		}
		return field, body[end+1:], nil
	}
}
