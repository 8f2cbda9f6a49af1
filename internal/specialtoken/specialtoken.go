// Package specialtoken reads the special tokens of tokenizer_config.json and special_tokens_map.json.
package specialtoken

import (
	"bytes"
	"encoding/json"
)

// Token is a special token in these files: its content, or an object that has it. It has the fields
// of text.AddedToken, into which it can be converted.
type Token struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// UnmarshalJSON reads a string or an object, whose token is special unless it says otherwise.
func (t *Token) UnmarshalJSON(data []byte) error {
	t.Special = true
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &t.Content)
	}
	type object Token
	return json.Unmarshal(data, (*object)(t))
}
