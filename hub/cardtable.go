package hub

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// markdownTable writes a table as transformers does: columns are centered and as wide as their
// widest cell. A row may lack columns that others have.
func markdownTable(rows []Values) string {
	if len(rows) == 0 {
		return ""
	}
	var columns []string
	for _, row := range rows {
		for _, v := range row {
			if !slices.Contains(columns, v.Name) {
				columns = append(columns, v.Name)
			}
		}
	}
	widths := make([]int, len(columns))
	cells := make([][]string, 1, len(rows)+1)
	for i, c := range columns {
		cells[0] = append(cells[0], cell(c))
		widths[i] = utf8.RuneCountInString(cells[0][i])
	}
	for _, row := range rows {
		line := make([]string, len(columns))
		for i, c := range columns {
			if v, ok := row.Get(c); ok {
				line[i] = cell(rounded(v))
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
		cells = append(cells, line)
	}
	var out strings.Builder
	for n, line := range cells {
		for i, text := range line {
			out.WriteString("| " + text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+1))
		}
		out.WriteString("|\n")
		if n == 0 {
			for _, w := range widths {
				out.WriteString("|:" + strings.Repeat("-", w) + ":")
			}
			out.WriteString("|\n")
		}
	}
	return out.String()
}

// cell escapes characters that would break the table.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\r", "", "\n", " ").Replace(s) }

// number converts a number to int64 or float64, and returns other values unchanged.
func number(v any) any {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int32:
		return int64(n)
	case float32:
		return float64(n)
	}
	return v
}

// rounded formats a value for display: numbers with more than four decimals are rounded to four.
func rounded(v any) string {
	text := pythonString(v)
	if f, ok := number(v).(float64); ok {
		if _, decimals, _ := strings.Cut(text, "."); len(decimals) > 4 {
			return strconv.FormatFloat(f, 'f', 4, 64)
		}
	}
	return text
}

// pythonString formats a value as Python's str does.
func pythonString(v any) string {
	switch n := number(v).(type) {
	case nil:
		return "None"
	case bool:
		if n {
			return "True"
		}
		return "False"
	case float64:
		return pyfloat.Repr(n)
	}
	return fmt.Sprint(v)
}
