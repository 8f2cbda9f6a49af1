package models

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
)

// Token is a token of a word.
type Token struct {
	ID         int64
	Value      string // as shown in the encoding: usually the vocabulary's token for ID
	Start, End int    // bytes of the word
}

// Model cuts words into tokens. It must be safe to use from several goroutines.
type Model interface {
	// Tokenize appends the tokens of a word: a piece that a pre-tokenizer returned, or the whole
	// text without one.
	Tokenize(dst []Token, word string) ([]Token, error)

	TokenToID(token string) (int64, bool)
	IDToToken(id int64) (string, bool)
	VocabSize() int
	Vocab() iter.Seq2[string, int64] // all tokens, in the order of their ids
}

// ErrMissingUnknown means that a word is not in the vocabulary and the vocabulary has no token for
// such words.
var ErrMissingUnknown = errors.New("the vocabulary has no unknown token, and a word needs it")

// maxID is the largest id that is read: ids are 32 bits wide in the reference.
const maxID = math.MaxUint32

// vocabulary maps tokens to ids and back.
type vocabulary struct {
	ids    map[string]int64
	tokens []string         // by id, if ids are dense
	exists []bool           // whether there is a token with this id
	sparse map[int64]string // tokens by id, if ids are not dense
}

func newVocabulary(ids map[string]int64) (*vocabulary, error) {
	v := &vocabulary{ids: ids}
	last := int64(-1)
	for token, id := range ids {
		if id < 0 || id > maxID {
			return nil, fmt.Errorf("token %q has id %d; want 0 to %d", token, id, maxID)
		}
		last = max(last, id)
	}
	if last >= 4*int64(len(ids))+1024 { // a table would be mostly holes
		v.sparse = make(map[int64]string, len(ids))
		for token, id := range ids {
			if have, ok := v.sparse[id]; !ok || token < have {
				v.sparse[id] = token
			}
		}
		return v, nil
	}
	v.tokens, v.exists = make([]string, last+1), make([]bool, last+1)
	for token, id := range ids {
		if !v.exists[id] || token < v.tokens[id] { // of two tokens with the same id, the first in byte order
			v.tokens[id], v.exists[id] = token, true
		}
	}
	return v, nil
}

// TokenToID returns the id of a token of the vocabulary.
func (v *vocabulary) TokenToID(token string) (int64, bool) {
	id, ok := v.ids[token]
	return id, ok
}

// IDToToken returns the token of an id.
func (v *vocabulary) IDToToken(id int64) (string, bool) {
	if v.sparse != nil {
		token, ok := v.sparse[id]
		return token, ok
	}
	if id < 0 || id >= int64(len(v.tokens)) || !v.exists[id] {
		return "", false
	}
	return v.tokens[id], true
}

// VocabSize returns the number of tokens.
func (v *vocabulary) VocabSize() int { return len(v.ids) }

// Vocab returns the tokens and their ids in the order of the ids.
func (v *vocabulary) Vocab() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, token := range v.sorted() {
			if !yield(token, v.ids[token]) {
				return
			}
		}
	}
}

// sorted returns the tokens in the order of their ids.
func (v *vocabulary) sorted() []string {
	return slices.SortedFunc(maps.Keys(v.ids), func(a, b string) int {
		if d := v.ids[a] - v.ids[b]; d != 0 {
			return int(d)
		}
		if a < b {
			return -1
		}
		return 1
	})
}
