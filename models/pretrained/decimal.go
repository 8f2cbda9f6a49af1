package pretrained

import (
	"encoding/json"
	"strings"
)

// Decimal is a number that a [Document] always writes with a decimal point, as Python does: for
// some settings, transformers refuses 2 and requires 2.0.
type Decimal float64

// MarshalJSON writes 2 as 2.0.
func (d Decimal) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(float64(d))
	if err == nil && !strings.ContainsAny(string(text), ".e") {
		text = append(text, ".0"...)
	}
	return text, err
}
