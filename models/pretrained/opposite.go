package pretrained

import "encoding/json"

// Opposite is a bool whose opposite is in config.json, for settings that are true there by default.
type Opposite bool

// UnmarshalJSON reads the opposite.
func (o *Opposite) UnmarshalJSON(text []byte) error {
	opposite := true
	err := json.Unmarshal(text, &opposite)
	*o = Opposite(!opposite)
	return err
}

// MarshalJSON writes the opposite.
func (o Opposite) MarshalJSON() ([]byte, error) { return json.Marshal(!bool(o)) }
