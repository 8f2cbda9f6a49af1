package auto

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text"
	decoding "github.com/gotrainer/gotrainer/text/decoders"
)

// stopper detects whether the last token of a text completes a stop string: StopStringCriteria of
// transformers. It compares bytes; each token stands for the bytes that it adds to a text.
type stopper struct {
	strings []string
	longest int // bytes of the longest string
	window  int // how many tokens are examined: the characters of the longest string, or its bytes if tokens are bytes
	added   func(id int64) piece
	known   sync.Map // cached results of added, by id
}

// piece is what a token adds to a text; ok is false if there is no such token.
type piece struct {
	text string
	ok   bool
}

// before is prepended to a token when it is decoded, since many decoders treat the first token of a
// text differently.
const before = "abcdef"

// stopAt makes a stopper for strings, or returns nil if there are none.
func (m *Model) stopAt(stops []string) (*stopper, error) {
	if len(stops) == 0 {
		return nil, nil
	}
	if m.Tokenizer == nil {
		return nil, fmt.Errorf("%w, which Generation.StopStrings are found by", m.errNoTokenizer())
	}
	t := m.Tokenizer.Target()
	decoder := t.Config().Decoder
	s := &stopper{strings: stops}
	size := func(s string) int { return len(s) }
	var own func(token string) (string, bool) // the bytes that a token stands for, if any
	switch {
	case has[decoding.ByteFallback](decoder):
		own = func(token string) (string, bool) {
			b, ok := decoding.ByteFallback{}.Byte(token)
			return string([]byte{b}), ok
		}
	case has[decoding.ByteLevel](decoder):
		own = func(token string) (string, bool) {
			b, ok := decoding.ByteLevel{}.Bytes(token)
			return string(b), ok
		}
	default:
		size = utf8.RuneCountInString
	}
	for _, stop := range stops {
		s.longest, s.window = max(s.longest, len(stop)), max(s.window, size(stop))
	}
	front, err := front(t)
	if err != nil {
		return nil, err
	}
	s.added = func(id int64) piece {
		token, ok := t.IDToToken(id)
		if !ok {
			return piece{}
		}
		if own != nil {
			if text, ok := own(token); ok {
				return piece{text, true}
			}
		}
		_, text, ok := strings.Cut(decoding.Decode(decoder, append(front(), token)), before)
		return piece{text, ok}
	}
	return s, nil
}

// front returns a function that returns the tokens of the text before.
func front(t *text.Tokenizer) (func() []string, error) {
	t, err := t.WithTruncation(nil)
	if err == nil {
		t, err = t.WithPadding(nil)
	}
	var e *text.Encoding
	if err == nil {
		e, err = t.Encode(before, &text.EncodeOptions{NoSpecialTokens: true})
	}
	if err != nil {
		return nil, fmt.Errorf("auto: Generation.StopStrings: %w", err)
	}
	front := func() []string { return slices.Clone(e.Tokens) } // a copy, because decoders may change it
	if decoded := decoding.Decode(t.Config().Decoder, front()); !strings.Contains(decoded, before) {
		return nil, fmt.Errorf("auto: Generation.StopStrings: the tokenizer makes %q of %q, so that it cannot be told "+
			"what a token adds to a text; want a tokenizer that has these letters", decoded, before)
	}
	return front, nil
}

// has reports whether a decoder is a T or contains one.
func has[T decoding.Decoder](d decoding.Decoder) bool {
	if _, is := d.(T); is {
		return true
	}
	parts, _ := d.(decoding.Sequence)
	for _, part := range parts {
		if has[T](part) {
			return true
		}
	}
	return false
}

// at returns what a token adds to a text.
func (s *stopper) at(id int64) piece {
	if p, ok := s.known.Load(id); ok {
		return p.(piece)
	}
	p := s.added(id)
	s.known.Store(id, p)
	return p
}

// stops reports whether the last token of a text completes a string. Strings that were already
// complete before it do not count.
func (s *stopper) stops(ids []int64) bool {
	if s == nil {
		return false
	}
	last := s.at(ids[len(ids)-1])
	if !last.ok || last.text == "" {
		return false
	}
	tail := ""
	for i := len(ids) - 2; i >= max(0, len(ids)-s.window) && len(tail) < s.longest-1; i-- {
		p := s.at(ids[i])
		if !p.ok {
			break
		}
		tail = p.text + tail
	}
	for _, stop := range s.strings {
		if strings.Contains(tail[max(0, len(tail)-len(stop)+1):]+last.text, stop) {
			return true
		}
	}
	return false
}
