package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Hex is a number that is written like Python's float.hex.
type Hex float64

// FormatHex formats a number like Python's float.hex, with all 13 digits; numbers that are not
// finite are "nan", "inf" or "-inf".
func FormatHex(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return pyfloat.Repr(v)
	}
	bits := math.Float64bits(v)
	sign := ""
	if bits>>63 == 1 {
		sign = "-"
	}
	exponent, mantissa := int(bits>>52&0x7ff), bits&(1<<52-1)
	switch {
	case exponent == 0 && mantissa == 0:
		return sign + "0x0.0p+0"
	case exponent == 0:
		return fmt.Sprintf("%s0x0.%013xp-1022", sign, mantissa)
	}
	return fmt.Sprintf("%s0x1.%013xp%+d", sign, mantissa, exponent-1023)
}

// ParseFloat parses the format of [FormatHex].
func ParseFloat(text string) (float64, bool) {
	if !slices.Contains([]string{"nan", "inf", "-inf"}, text) && !strings.HasPrefix(strings.TrimPrefix(text, "-"), "0x") {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// number returns the value of a JSON number, or of a string that represents a number; ok is false
// for anything else.
func number(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil || math.IsInf(f, 0)
	case string:
		return ParseFloat(v)
	}
	return 0, false
}

// isInt reports whether a JSON value is a number without point and exponent.
func isInt(v any) bool {
	n, ok := v.(json.Number)
	return ok && !strings.ContainsAny(n.String(), ".eE")
}
