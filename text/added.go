package text

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/trie"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
)

// AddedToken is a token that is searched for in the text before the model sees it, such as [MASK].
// If several start at the same place, the longest one is used.
type AddedToken struct {
	// the vocabulary's id if it has the token, otherwise the next free one, whatever the value
	// here, as in the reference
	ID         int64  `json:"id"`
	Content    string `json:"content"`     // the text to search for
	SingleWord bool   `json:"single_word"` // not within a longer word
	LStrip     bool   `json:"lstrip"`      // includes white space before it
	RStrip     bool   `json:"rstrip"`      // includes white space after it
	Normalized bool   `json:"normalized"`  // searched for in the normalized text, and normalized itself
	Special    bool   `json:"special"`     // omitted when a text is decoded
}

// SpecialTokens makes special tokens with the given contents.
func SpecialTokens(contents ...string) []AddedToken {
	tokens := make([]AddedToken, len(contents))
	for i, c := range contents {
		tokens[i] = AddedToken{Content: c, Special: true}
	}
	return tokens
}

// addedVocabulary holds the added tokens of a tokenizer.
type addedVocabulary struct {
	ids        map[string]int64
	tokens     map[int64]AddedToken
	normalized map[int64]string // the contents that normalization changed
	special    map[string]bool
	raw        matcher // the tokens searched for in the original text
	cleaned    matcher // the tokens searched for in the normalized text
}

func newAddedVocabulary(tokens []AddedToken, model models.Model, n normalizers.Normalizer) (*addedVocabulary, error) {
	a := &addedVocabulary{map[string]int64{}, map[int64]AddedToken{}, map[int64]string{}, map[string]bool{}, matcher{},
		matcher{}}
	next := int64(model.VocabSize())
	for _, t := range tokens {
		if t.Content == "" {
			continue
		}
		id, ok := a.ids[t.Content]
		if !ok {
			id, ok = model.TokenToID(t.Content)
		}
		if !ok {
			id = next
			next++
		}
		t.ID = id
		a.ids[t.Content], a.tokens[id] = id, t
		if t.Special {
			a.special[t.Content] = true
		}
		delete(a.normalized, id)
		if t.Normalized && n != nil {
			s := normalizers.NewString(t.Content)
			n.Normalize(&s)
			if err := s.Err(); err != nil {
				return nil, fmt.Errorf("added token %q: %w", t.Content, err)
			}
			if s.Text() != t.Content {
				a.normalized[id] = s.Text()
			}
		}
	}
	raw, cleaned := map[string]int64{}, map[string]int64{}
	for _, id := range slices.Sorted(maps.Keys(a.tokens)) {
		t := a.tokens[id]
		into, content := raw, t.Content
		if t.Normalized {
			into = cleaned
			if changed, ok := a.normalized[id]; ok {
				content = changed
			}
		}
		if other, ok := into[content]; ok {
			return nil, fmt.Errorf("added tokens %q and %q are the same once normalized, %q: nothing tells them apart",
				a.tokens[other].Content, t.Content, content)
		}
		if content != "" { // if empty, normalization left nothing to search for
			into[content] = id
		}
	}
	a.raw, a.cleaned = newMatcher(raw), newMatcher(cleaned)
	return a, nil
}

// list returns the tokens in the order of their ids.
func (a *addedVocabulary) list() []AddedToken {
	return slices.SortedFunc(maps.Values(a.tokens), func(x, y AddedToken) int { return cmp.Compare(x.ID, y.ID) })
}

// matcher finds the leftmost of several contents in a text, and the longest if several begin there.
type matcher struct {
	trie   *trie.Trie // nil if there are no contents
	ids    []int64    // by value of the trie
	starts [256]bool  // the bytes that contents begin with
	single int        // that byte if it is the only one, otherwise -1
}

func newMatcher(contents map[string]int64) matcher {
	m := matcher{single: -1}
	if len(contents) == 0 {
		return m
	}
	keys := slices.Sorted(maps.Keys(contents))
	m.trie = trie.New(keys)
	m.single = int(keys[0][0])
	for _, k := range keys {
		m.ids = append(m.ids, contents[k])
		m.starts[k[0]] = true
		if int(k[0]) != m.single {
			m.single = -1
		}
	}
	return m
}

// next returns the first match at byte from or after it.
func (m *matcher) next(text string, from int) (start, end int, id int64, ok bool) {
	if m.trie == nil {
		return 0, 0, 0, false
	}
	for i := from; i < len(text); i++ {
		if m.single >= 0 {
			n := strings.IndexByte(text[i:], byte(m.single))
			if n < 0 {
				break
			}
			i += n
		} else if !m.starts[text[i]] {
			continue
		}
		state, value, end := trie.Root, trie.None, 0
		for k := i; k < len(text); k++ {
			next, ok := m.trie.Step(state, text[k])
			if !ok {
				break
			}
			state = next
			if v := m.trie.Value(state); v != trie.None {
				value, end = v, k+1
			}
		}
		if value != trie.None {
			return i, end, m.ids[value], true
		}
	}
	return 0, 0, 0, false
}

// segment is a part of a text: an added token, or the text between two of them if id is negative.
type segment struct {
	start, end int
	id         int64
}

// split cuts a text at added tokens. Without any it returns nil.
func (a *addedVocabulary) split(m *matcher, text string) []segment {
	var parts []segment
	last := 0
	for from := 0; ; {
		start, end, id, ok := m.next(text, from)
		if !ok {
			break
		}
		from = end
		t := a.tokens[id]
		if t.SingleWord && (endsWithWord(text[:start]) || startsWithWord(text[end:])) {
			continue
		}
		table := ucd.Load()
		space := func(r rune) bool { return table.Of(r).Is(ucd.Space) }
		if t.LStrip { // the token before it may have taken the space
			start = max(len(strings.TrimRightFunc(text[:start], space)), last)
		}
		if t.RStrip {
			end += len(text[end:]) - len(strings.TrimLeftFunc(text[end:], space))
		}
		end = max(start, end) // the start may have moved past a token that is a space itself
		if last < start {
			parts = append(parts, segment{last, start, -1})
		}
		parts = append(parts, segment{start, end, id})
		last = end
	}
	if parts != nil && last < len(text) {
		parts = append(parts, segment{last, len(text), -1})
	}
	return parts
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && ucd.Load().Of(r).Is(ucd.Word)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && ucd.Load().Of(r).Is(ucd.Word)
}
