package pyfloat

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
)

// JSON is a number in JSON, where nan and infinities are the strings "nan", "inf" and "-inf".
// Integral numbers are written with a point, so that Python reads them as floats.
type JSON float64

// MarshalJSON implements json.Marshaler.
func (f JSON) MarshalJSON() ([]byte, error) {
	switch v := float64(f); {
	case math.IsNaN(v):
		return []byte(`"nan"`), nil
	case math.IsInf(v, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-inf"`), nil
	default:
		text, err := json.Marshal(v)
		if err == nil && !bytes.ContainsAny(text, ".e") {
			text = append(text, ".0"...)
		}
		return text, err
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *JSON) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"nan"`:
		*f = JSON(math.NaN())
	case `"inf"`:
		*f = JSON(math.Inf(1))
	case `"-inf"`:
		*f = JSON(math.Inf(-1))
	case "null":
		return errors.New("a number is null")
	default:
		var v float64
		if err := json.Unmarshal(text, &v); err != nil {
			return err
		}
		*f = JSON(v)
	}
	return nil
}
