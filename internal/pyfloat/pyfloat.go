// Package pyfloat formats and rounds numbers like Python, for files and texts that must be
// identical.
package pyfloat

import (
	"math"
	"strconv"
	"strings"
)

// Repr returns Python's repr of a float: the shortest text that parses back to v, with an exponent
// below 1e-4 and from 1e16 on, and otherwise with a point.
func Repr(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	if size := math.Abs(v); v != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// YAML formats a float like PyYAML: there is a point before an exponent, because its own readers
// take 1e-05 for a string.
func YAML(v float64) string {
	text := Repr(v)
	switch {
	case math.IsNaN(v):
		return ".nan"
	case math.IsInf(v, 0):
		return strings.Replace(text, "inf", ".inf", 1)
	case !strings.Contains(text, "."):
		return strings.Replace(text, "e", ".0e", 1)
	}
	return text
}

// Round is Python's round(v, decimals) for decimals >= 0: to the nearest, based on the exact value
// of v, unlike multiplying by a power of ten.
func Round(v float64, decimals int) float64 {
	// the output of FormatFloat always parses
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', decimals, 64), 64)
	return rounded
}
