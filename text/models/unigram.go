package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/internal/trie"
)

// unknownPenalty is how much lower the log probability of an unknown character is than that of the
// least likely token.
const unknownPenalty = 10.0

// ScoredToken is a token and the logarithm of its probability.
type ScoredToken struct {
	Token string
	Score float64
}

// MarshalJSON writes ["▁the",-3.2].
func (t ScoredToken) MarshalJSON() ([]byte, error) { return json.Marshal([]any{t.Token, t.Score}) }

// UnmarshalJSON reads ["▁the",-3.2].
func (t *ScoredToken) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if len(list) != 2 {
		return fmt.Errorf("a token of Unigram is %.60s; want the token and its score", data)
	}
	if err := json.Unmarshal(list[0], &t.Token); err != nil {
		return err
	}
	return json.Unmarshal(list[1], &t.Score)
}

// UnigramOptions configures [NewUnigram].
type UnigramOptions struct {
	// the index of the token for unknown characters; if negative, there is none, and unknown
	// characters are an error
	UnknownID int64
	// unknown characters become tokens such as <0xE2>, one for each byte, if the vocabulary has
	// them all
	ByteFallback bool
	// scores are added up in float32, as SentencePiece does, and not in float64, as the library
	// tokenizers does, which decides otherwise between segmentations of the same score. It is not in
	// tokenizer.json.
	Float32 bool
}

// Unigram is SentencePiece's unigram model: of all ways to segment a text into tokens, it takes the
// most likely one. Consecutive unknown characters are one token.
type Unigram struct {
	*vocabulary
	o            UnigramOptions
	list         []ScoredToken
	trie         *trie.Trie
	ids          []int64   // by value of the trie
	scores       []float64 // by value of the trie
	unknownScore float64
}

// NewUnigram makes a model from a vocabulary; the id of a token is its index in the list. It keeps
// the list.
func NewUnigram(list []ScoredToken, o UnigramOptions) (*Unigram, error) {
	if o.UnknownID >= int64(len(list)) {
		return nil, fmt.Errorf("Unigram: the unknown token is number %d, but there are %d tokens", o.UnknownID,
			len(list))
	}
	ids := make(map[string]int64, len(list))
	lowest := math.Inf(1)
	for id, t := range list {
		if math.IsNaN(t.Score) {
			return nil, fmt.Errorf("Unigram: the score of token %q is not a number", t.Token)
		}
		ids[t.Token] = int64(id)
		lowest = min(lowest, t.Score)
	}
	v, err := newVocabulary(ids)
	if err != nil {
		return nil, fmt.Errorf("Unigram: %w", err)
	}
	m := &Unigram{vocabulary: v, o: o, list: list, unknownScore: lowest - unknownPenalty}
	keys := v.sorted()
	for _, k := range keys {
		id := ids[k]
		m.ids, m.scores = append(m.ids, id), append(m.scores, list[id].Score)
	}
	m.trie = trie.New(keys)
	return m, nil
}

// IDToToken returns the token of an id.
func (m *Unigram) IDToToken(id int64) (string, bool) {
	if id < 0 || id >= int64(len(m.list)) {
		return "", false
	}
	return m.list[id].Token, true
}

// VocabSize returns the number of tokens.
func (m *Unigram) VocabSize() int { return len(m.list) }

// step is the end of the best segmentation of the text up to some byte.
type step struct {
	score float64
	from  int // where its last token begins; negative if there is no segmentation
	id    int64
}

// Tokenize appends the tokens of a text.
func (m *Unigram) Tokenize(dst []Token, text string) ([]Token, error) {
	if text == "" {
		return dst, nil
	}
	best, err := m.search(text)
	if err != nil {
		return dst, err
	}
	begin := len(dst)
	for end := len(text); end > 0; {
		s := best[end]
		if n := len(dst); n > begin && s.id == m.o.UnknownID && dst[n-1].ID == m.o.UnknownID {
			dst[n-1].Start = s.from
		} else {
			dst = append(dst, Token{ID: s.id, Start: s.from, End: end})
		}
		end = s.from
	}
	slices.Reverse(dst[begin:])
	found := slices.Clone(dst[begin:])
	dst = dst[:begin]
	for _, t := range found {
		t.Value = text[t.Start:t.End]
		if id, ok := m.vocabulary.ids[t.Value]; ok {
			t.ID = id // consecutive unknown characters may form a known token
			dst = append(dst, t)
			continue
		}
		if bytes, ok := m.bytes(t); ok {
			dst = append(dst, bytes...)
			continue
		}
		dst = append(dst, t)
	}
	return dst, nil
}

// search finds the best segmentation up to each byte at which a character ends (Viterbi).
func (m *Unigram) search(text string) ([]step, error) {
	best := make([]step, len(text)+1)
	for i := range best {
		best[i].from = -1
	}
	offer := func(from, to int, id int64, score float64) {
		if m.o.Float32 {
			score = float64(float32(score))
		}
		if s := &best[to]; s.from < 0 || score > s.score {
			*s = step{score, from, id}
		}
	}
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRuneInString(text[i:])
		here, single, state := best[i].score, false, trie.Root
		for k := i; k < len(text); k++ {
			next, ok := m.trie.Step(state, text[k])
			if !ok {
				break
			}
			state = next
			if v := m.trie.Value(state); v != trie.None {
				offer(i, k+1, m.ids[v], here+m.scores[v])
				single = single || k+1 == i+n
			}
		}
		if !single {
			if m.o.UnknownID < 0 && (best[i+n].from < 0 || here+m.unknownScore > best[i+n].score) {
				return nil, fmt.Errorf("Unigram: %w", ErrMissingUnknown)
			}
			offer(i, i+n, m.o.UnknownID, here+m.unknownScore)
		}
		i += n
	}
	return best, nil
}

// bytes returns the byte tokens of an unknown token, each with the span of the whole token.
func (m *Unigram) bytes(t Token) ([]Token, bool) {
	if !m.o.ByteFallback {
		return nil, false
	}
	out := make([]Token, len(t.Value))
	for i := range len(t.Value) {
		name := fmt.Sprintf("<0x%02X>", t.Value[i])
		id, ok := m.vocabulary.ids[name]
		if !ok {
			return nil, false
		}
		out[i] = Token{id, name, t.Start, t.End}
	}
	return out, true
}

// MarshalJSON writes the field "model" of tokenizer.json.
func (m *Unigram) MarshalJSON() ([]byte, error) {
	var unknown *int64
	if m.o.UnknownID >= 0 {
		unknown = &m.o.UnknownID
	}
	return tagged.Marshal("Unigram", struct {
		UnknownID    *int64        `json:"unk_id"`
		Vocab        []ScoredToken `json:"vocab"`
		ByteFallback bool          `json:"byte_fallback"`
	}{unknown, append([]ScoredToken{}, m.list...), m.o.ByteFallback})
}

func parseUnigram(raw []byte) (Model, error) {
	f, err := tagged.Decode[struct {
		UnknownID    *int64        `json:"unk_id"`
		Vocab        []ScoredToken `json:"vocab"`
		ByteFallback bool          `json:"byte_fallback"`
	}](raw, "vocab")
	if err != nil {
		return nil, err
	}
	o := UnigramOptions{UnknownID: -1, ByteFallback: f.ByteFallback}
	if f.UnknownID != nil {
		if o.UnknownID = *f.UnknownID; o.UnknownID < 0 {
			return nil, errors.New("unk_id is negative")
		}
	}
	return NewUnigram(f.Vocab, o)
}
