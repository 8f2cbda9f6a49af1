package models

import "fmt"

// WordLevel makes each word a token.
type WordLevel struct {
	*vocabulary
	unknown string
}

// NewWordLevel makes a model from a vocabulary. Words outside it become the unknown token.
func NewWordLevel(vocab map[string]int64, unknown string) (*WordLevel, error) {
	v, err := newVocabulary(vocab)
	if err != nil {
		return nil, fmt.Errorf("WordLevel: %w", err)
	}
	return &WordLevel{v, unknown}, nil
}

// Tokenize appends the one token of a word.
func (m *WordLevel) Tokenize(dst []Token, word string) ([]Token, error) {
	if id, ok := m.ids[word]; ok {
		return append(dst, Token{id, word, 0, len(word)}), nil
	}
	if id, ok := m.ids[m.unknown]; ok {
		return append(dst, Token{id, m.unknown, 0, len(word)}), nil
	}
	return dst, fmt.Errorf("WordLevel: %w (%q)", ErrMissingUnknown, m.unknown)
}

// MarshalJSON writes the field "model" of tokenizer.json.
func (m *WordLevel) MarshalJSON() ([]byte, error) {
	return marshalModel("WordLevel", struct {
		Unknown string `json:"unk_token"`
	}{m.unknown}, m.vocabulary)
}
