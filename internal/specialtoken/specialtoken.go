// Package specialtoken parses the special tokens in tokenizer_config.json and
// special_tokens_map.json.
package specialtoken

import (
	"bytes"
	"encoding/json"
)

// Token is a special token in these files, which hold its content or an object. It has the fields
// of text.AddedToken, to which it can be converted.
type Token struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// UnmarshalJSON decodes a string or an object; the token is special unless the object says
// otherwise.
func (t *Token) UnmarshalJSON(data []byte) error {
	t.Special = true
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &t.Content)
	}
	type object Token
	return json.Unmarshal(data, (*object)(t))
}
