// Package pyfloat writes and rounds numbers as Python does, for files and texts that must not tell
// which of the two wrote them.
package pyfloat

import (
	"math"
	"strconv"
	"strings"
)

// Repr is Python's repr of a float: the shortest text that reads back as v, with an exponent below
// 1e-4 and from 1e16 on, otherwise with a point.
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

// YAML is how PyYAML writes a float: its own readers take 1e-05 for a string, so there is a point
// before the exponent.
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

// Round is Python's round(v, decimals) for decimals of at least zero: to the nearest by the exact
// value of v, for which multiplying by a power of ten would not do.
func Round(v float64, decimals int) float64 {
	// it reads all that FormatFloat writes
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', decimals, 64), 64)
	return rounded
}
