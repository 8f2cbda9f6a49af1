package models

import (
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// BPEOptions configures [NewBPE]. The zero value is a byte-level model such as GPT-2's, after a
// ByteLevel pre-tokenizer.
type BPEOptions struct {
	UnknownToken    string // for characters outside the vocabulary; if empty, they are left out
	Prefix          string // of tokens that continue a word
	EndOfWordSuffix string // of tokens that end a word
	FuseUnknown     bool   // consecutive unknown characters are one token
	// unknown characters become tokens such as <0xE2>, one for each byte, if the vocabulary has
	// them all
	ByteFallback bool
	IgnoreMerges bool // a word that is in the vocabulary becomes that token, regardless of merges
}

// BPE is byte pair encoding: a word begins as single characters, and as long as merges apply, the
// one that was learned first joins two neighbors.
type BPE struct {
	*vocabulary
	o      BPEOptions
	pairs  [][2]string // the merges in order
	merges map[[2]int64]merge
	cache  sync.Map     // word to []Token, since words repeat
	cached atomic.Int64 // words in it
}

type merge struct {
	rank int32
	id   int64
}

// cachedWords and cachedLength bound the cache, as in the reference.
const cachedWords, cachedLength = 10000, 256

// NewBPE makes a model from a vocabulary and merges in the order in which they were learned. It
// keeps both.
func NewBPE(vocab map[string]int64, merges [][2]string, o BPEOptions) (*BPE, error) {
	v, err := newVocabulary(vocab)
	if err != nil {
		return nil, fmt.Errorf("BPE: %w", err)
	}
	m := &BPE{vocabulary: v, o: o, pairs: merges, merges: make(map[[2]int64]merge, len(merges))}
	for rank, p := range merges {
		a, okA := v.ids[p[0]]
		b, okB := v.ids[p[1]]
		if len(p[1]) < len(o.Prefix) {
			return nil, fmt.Errorf("BPE: merge %d, %q: the second token is shorter than the prefix %q", rank, p,
				o.Prefix)
		}
		joined := p[0] + p[1][len(o.Prefix):]
		id, ok := v.ids[joined]
		if !okA || !okB || !ok {
			return nil, fmt.Errorf("BPE: merge %d, %q: the vocabulary lacks one of the tokens or %q", rank, p, joined)
		}
		m.merges[[2]int64{a, b}] = merge{int32(rank), id}
	}
	return m, nil
}

// Tokenize appends the tokens of a word.
func (m *BPE) Tokenize(dst []Token, word string) ([]Token, error) {
	if word == "" {
		return dst, nil
	}
	if m.o.IgnoreMerges {
		if id, ok := m.ids[word]; ok {
			return append(dst, Token{id, word, 0, len(word)}), nil
		}
	}
	if tokens, ok := m.cache.Load(word); ok {
		return append(dst, tokens.([]Token)...), nil
	}
	symbols, err := m.symbols(word)
	if err != nil {
		return dst, err
	}
	m.join(symbols)
	begin, at := len(dst), 0
	for _, s := range symbols {
		if s.length > 0 {
			token, _ := m.IDToToken(s.id)
			dst = append(dst, Token{s.id, token, at, at + s.length})
			at += s.length
		}
	}
	if len(word) < cachedLength && m.cached.Load() < cachedWords {
		m.cached.Add(1)
		m.cache.Store(strings.Clone(word), append([]Token(nil), dst[begin:]...))
	}
	return dst, nil
}

// symbol is a token during merging. One that was joined to its left neighbor has length zero.
type symbol struct {
	id         int64
	length     int // bytes of the word
	prev, next int // the neighbors; negative: none
}

// symbols splits a word into single characters.
func (m *BPE) symbols(word string) ([]symbol, error) {
	symbols := make([]symbol, 0, len(word))
	add := func(id int64, length int) { symbols = append(symbols, symbol{id: id, length: length}) }
	unknown := 0 // bytes of unknown characters that are not added yet
	flush := func() {
		if unknown > 0 {
			add(m.ids[m.o.UnknownToken], unknown)
			unknown = 0
		}
	}
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		s := word[i : i+n]
		if i > 0 && m.o.Prefix != "" {
			s = m.o.Prefix + s
		}
		i += n
		if i == len(word) && m.o.EndOfWordSuffix != "" {
			s += m.o.EndOfWordSuffix
		}
		if id, ok := m.ids[s]; ok {
			flush()
			add(id, n)
			continue
		}
		if m.o.ByteFallback {
			if ids, ok := m.byteTokens(s); ok {
				for _, id := range ids { // as in the reference, pending unknown characters come after
					add(id, 1)
				}
				continue
			}
		}
		if m.o.UnknownToken == "" {
			continue
		}
		if _, ok := m.ids[m.o.UnknownToken]; !ok {
			return nil, fmt.Errorf("BPE: %w (%q)", ErrMissingUnknown, m.o.UnknownToken)
		}
		if !m.o.FuseUnknown {
			flush()
		}
		unknown += n
	}
	flush()
	for i := range symbols {
		symbols[i].prev, symbols[i].next = i-1, i+1
	}
	if len(symbols) > 0 {
		symbols[len(symbols)-1].next = -1
	}
	return symbols, nil
}

func (m *BPE) byteTokens(s string) ([]int64, bool) {
	ids := make([]int64, len(s))
	for i := range len(s) {
		id, ok := m.ids[fmt.Sprintf("<0x%02X>", s[i])]
		if !ok {
			return nil, false
		}
		ids[i] = id
	}
	return ids, true
}

// joint is a position at which two neighboring symbols can be joined.
type joint struct {
	merge
	at int
}

type joints []joint

func (q joints) Len() int { return len(q) }
func (q joints) Less(i, k int) bool {
	return q[i].rank < q[k].rank || q[i].rank == q[k].rank && q[i].at < q[k].at
}
func (q joints) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *joints) Push(j any)   { *q = append(*q, j.(joint)) }
func (q *joints) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// join applies the merges, those learned first first, and each from left to right.
func (m *BPE) join(s []symbol) {
	var q joints
	offer := func(at int) {
		if at >= 0 && s[at].next >= 0 {
			if found, ok := m.merges[[2]int64{s[at].id, s[s[at].next].id}]; ok {
				heap.Push(&q, joint{found, at})
			}
		}
	}
	for i := range s {
		offer(i)
	}
	for len(q) > 0 {
		top := heap.Pop(&q).(joint)
		left := &s[top.at]
		if left.length == 0 || left.next < 0 {
			continue
		}
		right := &s[left.next]
		if now, ok := m.merges[[2]int64{left.id, right.id}]; !ok || now.id != top.id {
			continue // one of the two has been joined to another symbol since
		}
		left.id, left.length = top.id, left.length+right.length
		right.length = 0
		left.next = right.next
		if left.next >= 0 {
			s[left.next].prev = top.at
		}
		offer(left.prev)
		offer(top.at)
	}
}

// MarshalJSON writes the field "model" of tokenizer.json.
func (m *BPE) MarshalJSON() ([]byte, error) {
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	merges := m.pairs
	if merges == nil {
		merges = [][2]string{}
	}
	return marshalModel("BPE", struct {
		Dropout      *float64    `json:"dropout"`
		Unknown      *string     `json:"unk_token"`
		Prefix       *string     `json:"continuing_subword_prefix"`
		Suffix       *string     `json:"end_of_word_suffix"`
		FuseUnknown  bool        `json:"fuse_unk"`
		ByteFallback bool        `json:"byte_fallback"`
		IgnoreMerges bool        `json:"ignore_merges"`
		Merges       [][2]string `json:"merges"`
	}{nil, optional(m.o.UnknownToken), optional(m.o.Prefix), optional(m.o.EndOfWordSuffix), m.o.FuseUnknown,
		m.o.ByteFallback, m.o.IgnoreMerges, merges}, m.vocabulary)
}

// mergeJSON is a merge as tokenizer.json has it: two tokens, or in older files both in one string
// with a space between them.
type mergeJSON [2]string

func (p *mergeJSON) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var line string
		if err := json.Unmarshal(data, &line); err != nil {
			return err
		}
		a, b, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(b, " ") {
			return fmt.Errorf("merge %q; want two tokens with a space between them", line)
		}
		*p = mergeJSON{a, b}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if len(list) != 2 {
		return fmt.Errorf("a merge of %d tokens; want 2", len(list))
	}
	*p = mergeJSON{list[0], list[1]}
	return nil
}

func parseBPE(raw []byte) (Model, error) {
	f, err := tagged.Decode[struct {
		Dropout      *float64         `json:"dropout"`
		Unknown      string           `json:"unk_token"`
		Prefix       string           `json:"continuing_subword_prefix"`
		Suffix       string           `json:"end_of_word_suffix"`
		FuseUnknown  bool             `json:"fuse_unk"`
		ByteFallback bool             `json:"byte_fallback"`
		IgnoreMerges bool             `json:"ignore_merges"`
		Vocab        map[string]int64 `json:"vocab"`
		Merges       []mergeJSON      `json:"merges"`
	}](raw, "vocab", "merges")
	if err != nil {
		return nil, err
	}
	if f.Dropout != nil && *f.Dropout != 0 {
		return nil, errors.New("dropout of merges is not zero: its result is random; set it to null in tokenizer.json")
	}
	merges := make([][2]string, 0, len(f.Merges))
	for _, p := range f.Merges {
		if strings.HasPrefix(p[0], "#version") {
			continue
		}
		merges = append(merges, p)
	}
	return NewBPE(f.Vocab, merges, BPEOptions{
		UnknownToken: f.Unknown, Prefix: f.Prefix, EndOfWordSuffix: f.Suffix, FuseUnknown: f.FuseUnknown,
		ByteFallback: f.ByteFallback, IgnoreMerges: f.IgnoreMerges,
	})
}
