package pretrained

import (
	"encoding/json"
	"strings"
)

// Float is a number that is written as Python writes a float, 1.0 and not 1: some settings of
// transformers are refused as integers.
type Float float64

// MarshalJSON writes the number.
func (f Float) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(float64(f))
	if err == nil && !strings.ContainsAny(string(text), ".e") {
		text = append(text, ".0"...)
	}
	return text, err
}
