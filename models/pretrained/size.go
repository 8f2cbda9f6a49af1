package pretrained

import (
	"encoding/json"
	"fmt"
)

// Size is a height and a width. In config.json it is one number for both, or a list of the two.
type Size struct{ Height, Width int64 }

// MarshalJSON writes a square as one number.
func (s Size) MarshalJSON() ([]byte, error) {
	if s.Height == s.Width {
		return json.Marshal(s.Height)
	}
	return json.Marshal([]int64{s.Height, s.Width})
}

// UnmarshalJSON reads a number or a list of two.
func (s *Size) UnmarshalJSON(text []byte) error {
	var side int64
	if json.Unmarshal(text, &side) == nil {
		*s = Size{side, side}
		return nil
	}
	var sides []int64
	if err := json.Unmarshal(text, &sides); err != nil || len(sides) != 2 {
		return fmt.Errorf("want a number, or a list of height and width")
	}
	*s = Size{sides[0], sides[1]}
	return nil
}
