package pretrained

import (
	"encoding/json"
	"strings"
)

// Float is a number that is written as Python writes a float, 1.0 instead of 1: transformers
// refuses integers for some settings.
type Float float64

// MarshalJSON writes the number.
func (f Float) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(float64(f))
	if err == nil && !strings.ContainsAny(string(text), ".e") {
		text = append(text, ".0"...)
	}
	return text, err
}
