package normalizers

import (
	"encoding/json"
	"errors"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// PatternSpec is a pattern as it is in tokenizer.json: a text or a regular expression.
type PatternSpec struct {
	String *string `json:"String,omitempty"`
	Regex  *string `json:"Regex,omitempty"`
}

// Compile compiles the pattern.
func (p PatternSpec) Compile() (Pattern, error) {
	switch {
	case p.String != nil && p.Regex == nil:
		return Literal(*p.String), nil
	case p.Regex != nil && p.String == nil:
		return Regexp(*p.Regex)
	}
	return nil, errors.New(`a pattern needs exactly one of the fields "String" and "Regex"`)
}

// Replace replaces each match of a pattern by a text. Make one with [NewReplace] or
// [NewReplaceRegexp].
type Replace struct {
	Spec    PatternSpec `json:"pattern"`
	Content string      `json:"content"`
	pattern Pattern
}

// NewReplace replaces a literal text.
func NewReplace(old, content string) Replace {
	return Replace{PatternSpec{String: &old}, content, Literal(old)}
}

// NewReplaceRegexp replaces the matches of a regular expression; [Regexp] says what it may contain.
func NewReplaceRegexp(pattern, content string) (Replace, error) {
	compiled, err := Regexp(pattern)
	return Replace{PatternSpec{Regex: &pattern}, content, compiled}, err
}

// Normalize replaces all matches.
func (n Replace) Normalize(s *String) { s.Replace(n.pattern, n.Content) }

// Apply replaces all matches in a text, without tracking spans.
func (n Replace) Apply(text string) string {
	s := NewString(text)
	n.Normalize(&s)
	return s.Text()
}

// MarshalJSON writes the type, the pattern and the content.
func (n Replace) MarshalJSON() ([]byte, error) {
	type fields Replace
	return tagged.Marshal("Replace", fields(n))
}

// ParseReplace reads the component "Replace", which is a normalizer and a decoder.
func ParseReplace(raw json.RawMessage) (Replace, error) {
	n, err := tagged.Decode[Replace](raw, "pattern", "content")
	if err == nil {
		n.pattern, err = n.Spec.Compile()
	}
	return n, err
}
