package models

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/trie"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// WordPieceOptions configures [NewWordPiece].
type WordPieceOptions struct {
	UnknownToken     string // for words that cannot be split into tokens; empty means [UNK]
	Prefix           string // of tokens that continue a word; empty means ##
	NoPrefix         bool   // tokens that continue a word have no prefix
	MaxCharsPerWord  int    // longer words are unknown; 0 means 100
	allowZeroMaximum bool   // in tokenizer.json, a MaxCharsPerWord of 0 means 0
}

// WordPiece is BERT's model: it takes the longest token that the word begins with, then the longest
// that continues it, and so on to the end. A word that cannot be split in this way becomes one
// unknown token.
type WordPiece struct {
	*vocabulary
	unknown      string
	unknownID    int64 // -1 if the vocabulary has none
	prefix       string
	maxChars     int
	trie         *trie.Trie
	continuation int32    // the state after the prefix; -1 if no token begins with it
	ids          []int64  // by value of the trie
	values       []string // by value of the trie
}

// NewWordPiece makes a model from a vocabulary. It keeps the map.
func NewWordPiece(vocab map[string]int64, o WordPieceOptions) (*WordPiece, error) {
	v, err := newVocabulary(vocab)
	if err != nil {
		return nil, fmt.Errorf("WordPiece: %w", err)
	}
	if o.UnknownToken == "" {
		o.UnknownToken = "[UNK]"
	}
	if o.Prefix == "" && !o.NoPrefix {
		o.Prefix = "##"
	}
	if o.MaxCharsPerWord == 0 && !o.allowZeroMaximum {
		o.MaxCharsPerWord = 100
	}
	if o.MaxCharsPerWord < 0 {
		return nil, fmt.Errorf("WordPiece: at most %d characters in a word; want 0 or more", o.MaxCharsPerWord)
	}
	m := &WordPiece{vocabulary: v, unknown: o.UnknownToken, unknownID: -1, prefix: o.Prefix,
		maxChars: o.MaxCharsPerWord, values: v.sorted()}
	if id, ok := v.ids[m.unknown]; ok {
		m.unknownID = id
	}
	m.ids = make([]int64, len(m.values))
	for i, token := range m.values {
		m.ids[i] = v.ids[token]
	}
	m.trie = trie.New(m.values)
	m.continuation = -1
	if state, ok := m.trie.Walk(trie.Root, m.prefix); ok {
		m.continuation = state
	}
	return m, nil
}

// Piece is a compact form of a token of a word: its index in the order of the vocabulary, and where
// it ends in the word.
type Piece struct{ index, End int32 }

// Pieces appends the tokens of a word, which must not be empty: [WordPiece.Tokenize] without
// strings. [WordPiece.At] returns the token of a piece.
func (m *WordPiece) Pieces(dst []Piece, word []byte) []Piece {
	if len(word) > m.maxChars && utf8.RuneCount(word) > m.maxChars {
		return append(dst, Piece{-1, int32(len(word))})
	}
	begin := len(dst)
	state := trie.Root
	for start := 0; start < len(word); {
		value, n := trie.None, 0
		if state >= 0 {
			value, n = m.trie.Longest(state, word[start:])
		}
		if value == trie.None {
			return append(dst[:begin], Piece{-1, int32(len(word))})
		}
		start += n
		dst = append(dst, Piece{value, int32(start)})
		state = m.continuation
	}
	return dst
}

// At returns the id and the token of a piece. The id is negative if the piece is the unknown token
// and the vocabulary has none.
func (m *WordPiece) At(p Piece) (id int64, token string) {
	if p.index < 0 {
		return m.unknownID, m.unknown
	}
	return m.ids[p.index], m.values[p.index]
}

// Tokenize appends the tokens of a word.
func (m *WordPiece) Tokenize(dst []Token, word string) ([]Token, error) {
	if word == "" {
		return dst, nil
	}
	start := 0
	for _, p := range m.Pieces(nil, []byte(word)) {
		id, value := m.At(p)
		if id < 0 {
			return dst, m.Missing()
		}
		dst = append(dst, Token{id, value, start, int(p.End)})
		start = int(p.End)
	}
	return dst, nil
}

// Missing returns the error for a word that needs the unknown token if the vocabulary has none.
func (m *WordPiece) Missing() error {
	return fmt.Errorf("WordPiece: %w (%q)", ErrMissingUnknown, m.unknown)
}

// UnknownToken returns the token for words that cannot be split into tokens.
func (m *WordPiece) UnknownToken() string { return m.unknown }

// Prefix returns the prefix of tokens that continue a word.
func (m *WordPiece) Prefix() string { return m.prefix }

// MarshalJSON writes the field "model" of tokenizer.json.
func (m *WordPiece) MarshalJSON() ([]byte, error) {
	return marshalModel("WordPiece", struct {
		Unknown  string `json:"unk_token"`
		Prefix   string `json:"continuing_subword_prefix"`
		MaxChars int    `json:"max_input_chars_per_word"`
	}{m.unknown, m.prefix, m.maxChars}, m.vocabulary)
}

// ReadVocab reads vocab.txt, which has one token per line; its id is the number of the line, from
// zero. As in the reference, white space at the end of a line is ignored, and of equal lines the
// last counts.
func ReadVocab(r io.Reader) (map[string]int64, error) {
	table := ucd.Load()
	vocab := map[string]int64{}
	lines := bufio.NewReader(r)
	for id := int64(0); ; id++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		if len(line) == 0 {
			return vocab, nil
		}
		if !utf8.Valid(line) {
			return nil, fmt.Errorf("line %d of the vocabulary is not UTF-8", id+1)
		}
		if id > math.MaxInt32 {
			return nil, fmt.Errorf("the vocabulary has more than %d lines", math.MaxInt32)
		}
		vocab[string(bytes.TrimRightFunc(line, func(r rune) bool { return table.Of(r).Is(ucd.Space) }))] = id
	}
}

// WriteVocab writes vocab.txt. The ids must be 0, 1, 2 and so on, and no token may hold a line end
// or end with white space.
func (m *WordPiece) WriteVocab(w io.Writer) error {
	b := bufio.NewWriter(w)
	next := int64(0)
	for token, id := range m.Vocab() {
		if id != next {
			return fmt.Errorf("vocab.txt cannot hold token %q with id %d: its line would be %d", token, id, next)
		}
		if strings.ContainsAny(token, "\r\n") || strings.TrimSpace(token) != strings.TrimLeft(token, " \t") {
			return fmt.Errorf("vocab.txt cannot hold token %q: it contains a line end or ends with white space", token)
		}
		if _, err := b.WriteString(token + "\n"); err != nil {
			return err
		}
		next++
	}
	return b.Flush()
}
