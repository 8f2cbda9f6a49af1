package pretrained

import "encoding/json"

// TokenIDs are ids that a [Document] holds as a number if there is one, as a list if there are
// several, and as null if there are none.
type TokenIDs []int64

// UnmarshalJSON accepts a number, a list or null.
func (t *TokenIDs) UnmarshalJSON(text []byte) error {
	var one int64
	if err := json.Unmarshal(text, &one); err == nil {
		*t = TokenIDs{one}
		return nil
	}
	return json.Unmarshal(text, (*[]int64)(t))
}

// MarshalJSON writes null if there are no ids, and a number if there is one.
func (t TokenIDs) MarshalJSON() ([]byte, error) {
	switch len(t) {
	case 0:
		return []byte("null"), nil
	case 1:
		return json.Marshal(t[0])
	}
	return json.Marshal([]int64(t))
}
