package normalizers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// Span is a range of bytes, without End.
type Span = encodings.Span

// String is a text as normalizers and pre-tokenizers have changed it, with the span of the original
// text for each of its bytes. It is NormalizedString of Hugging Face tokenizers, but spans always
// count from the start of the original, so that a slice of a String needs no conversion.
type String struct {
	text  string
	align []Span // of each byte of text; nil if each character stands for itself, from byte start of the original on
	start int    // the byte of the original at which this piece begins
	err   error  // why replacements are no longer made
}

// ErrGrown is wrapped by the error of a text that replacements would make far longer than it was: a
// few replacements that each double it would use up all memory.
var ErrGrown = errors.New("replacements make the text grow without bound")

// A text may grow to the larger of these limits. No real pipeline comes near them, since the
// longest normal form of a character has eighteen characters.
const (
	maxGrowth = 64      // times the size of the original
	minLimit  = 1 << 16 // bytes
)

// Err returns an error that wraps [ErrGrown] if a replacement was not made because the text would
// have grown too much.
func (s *String) Err() error { return s.err }

// NewString returns a String that stands for text. Each byte that is not UTF-8 becomes U+FFFD.
func NewString(text string) String {
	if utf8.ValidString(text) {
		return String{text: text}
	}
	var s String
	var b strings.Builder
	for i, r := range text {
		n := runeLen(r, text[i:])
		b.WriteRune(r)
		for range utf8.RuneLen(r) {
			s.align = append(s.align, Span{Start: i, End: i + n})
		}
	}
	s.text = b.String()
	return s
}

// Text returns the text as it is now.
func (s *String) Text() string { return s.text }

// Start returns the byte of the original text at which this piece begins.
func (s *String) Start() int { return s.start }

// Original returns the span of the original that the bytes from start to end stand for.
func (s *String) Original(start, end int) Span {
	if start >= end || end > len(s.text) { // an empty range stays where it is, as in the reference
		return Span{Start: s.start + start, End: s.start + end}
	}
	if s.align != nil {
		return Span{Start: s.align[start].Start, End: s.align[end-1].End}
	}
	for start > 0 && !utf8.RuneStart(s.text[start]) {
		start--
	}
	for end < len(s.text) && !utf8.RuneStart(s.text[end]) {
		end++
	}
	return Span{Start: s.start + start, End: s.start + end}
}

// Slice returns the piece from byte start to byte end.
func (s *String) Slice(start, end int) String {
	piece := String{text: s.text[start:end], start: s.Original(start, end).Start}
	if s.align != nil {
		piece.align = s.align[start:end:end]
	}
	return piece
}

// alignments returns the spans of all bytes.
func (s *String) alignments() []Span {
	if s.align == nil {
		s.align = make([]Span, len(s.text))
		for i, r := range s.text {
			n := runeLen(r, s.text[i:])
			for k := range n {
				s.align[i+k] = Span{Start: s.start + i, End: s.start + i + n}
			}
		}
	}
	return s.align
}

// runeLen returns the number of bytes from which r was decoded at the start of text: one if they
// are not UTF-8.
func runeLen(r rune, text string) int {
	if r == utf8.RuneError {
		_, n := utf8.DecodeRuneInString(text)
		return n
	}
	return utf8.RuneLen(r)
}

// change is a character of a new text. Its delta says where it comes from. If it is 0, the
// character stands for the next character of the old text. If it is positive, the character is new
// and shares the span of the one before it. If it is -n, the character stands for the next
// character of the old text, and the n characters after that are removed.
type change struct {
	r     rune
	delta int
}

// transform replaces the text; the first skip characters of the old text are removed.
func (s *String) transform(changes []change, skip int) {
	s.align = s.transformed(changes, skip)
	var b strings.Builder
	b.Grow(len(s.align))
	for _, c := range changes {
		b.WriteRune(c.r)
	}
	s.text = b.String()
}

func (s *String) transformed(changes []change, skip int) []Span {
	old := s.alignments()
	align := make([]Span, 0, len(s.text)+len(s.text)/8)
	at := 0
	next := func() {
		if at < len(s.text) {
			_, n := utf8.DecodeRuneInString(s.text[at:])
			at += n
		}
	}
	for range skip {
		next()
	}
	for _, c := range changes {
		var span Span
		switch {
		case c.delta > 0 && at > 0:
			span = old[at-1]
		case c.delta <= 0 && at < len(old):
			span = old[at]
		}
		if c.delta <= 0 {
			for range 1 - c.delta {
				next()
			}
		}
		for range max(1, utf8.RuneLen(c.r)) {
			align = append(align, span)
		}
	}
	return align
}

// Filter keeps the characters for which keep returns true.
func (s *String) Filter(keep func(rune) bool) {
	var changes []change
	skip, removed := 0, 0
	for _, r := range s.text {
		if !keep(r) {
			removed++
			continue
		}
		if len(changes) == 0 {
			skip = removed
		} else {
			changes[len(changes)-1].delta = -removed
		}
		removed = 0
		changes = append(changes, change{r, 0})
	}
	if len(changes) > 0 {
		changes[len(changes)-1].delta = -removed
	}
	if skip == 0 && removed == 0 && len(changes) == utf8.RuneCountInString(s.text) {
		return
	}
	s.transform(changes, skip)
}

// Map replaces each character by f of it.
func (s *String) Map(f func(rune) rune) {
	var changes []change
	for _, r := range s.text {
		changes = append(changes, change{f(r), 0})
	}
	s.transform(changes, 0)
}

// Prepend puts a prefix before the text; it stands for the first character of the original. An
// empty text stays empty.
func (s *String) Prepend(prefix string) {
	if s.text == "" || prefix == "" {
		return
	}
	_, n := utf8.DecodeRuneInString(s.text)
	old := s.alignments()
	// The first character shares its span with the prefix.
	s.align = slices.Concat(slices.Repeat([]Span{old[0]}, len(prefix)), slices.Repeat([]Span{old[n-1]}, n), old[n:])
	s.text = prefix + s.text
}

// Strip removes white space at the ends.
func (s *String) Strip(left, right bool) {
	table := ucd.Load()
	space := func(r rune) bool { return table.Of(r).Is(ucd.Space) }
	start, end := 0, len(s.text)
	if left {
		start = len(s.text) - len(strings.TrimLeftFunc(s.text, space))
	}
	if right {
		end = len(strings.TrimRightFunc(s.text, space))
	}
	if start >= end {
		start, end = 0, 0
	}
	begin, err := s.start, s.err
	*s = s.Slice(start, end)
	s.start, s.err = begin, err // still the same piece, with fewer characters
	if s.align == nil && start > 0 {
		moved := String{text: s.text, start: begin + start}
		s.align = moved.alignments()
	}
}

// grows reports whether a text of size bytes would be too large compared with the original. If so,
// it sets the error that [String.Err] returns.
func (s *String) grows(size int, by func() string) bool {
	if size <= minLimit {
		return false
	}
	original := 0
	if old := s.alignments(); len(old) > 0 {
		original = old[len(old)-1].End - s.start
	}
	if size/maxGrowth <= original {
		return false
	}
	s.err = fmt.Errorf("%w: %d bytes have become %d, and %s would make them %d; mend the normalizers", ErrGrown, original,
		len(s.text), by(), size)
	return true
}

// Replace replaces each match of the pattern by content, unless the text would grow without bound;
// see [String.Err].
func (s *String) Replace(pattern Pattern, content string) {
	if s.err != nil {
		return // the text is already refused, so the rest of the pipeline should cost nothing
	}
	matches := pattern.Matches(s.text)
	if len(matches) == 0 {
		return
	}
	old := s.alignments()
	size := len(s.text)
	for _, m := range matches {
		size += len(content) - (m.End - m.Start)
	}
	what := func() string { return fmt.Sprintf("putting %.40q in the place of %d matches", content, len(matches)) }
	if s.grows(size, what) {
		return
	}
	var b strings.Builder
	b.Grow(size)
	align := make([]Span, 0, size)
	last := 0
	for _, m := range matches {
		b.WriteString(s.text[last:m.Start])
		align = append(align, old[last:m.Start]...)
		var span Span
		if m.End > 0 {
			span = old[m.End-1]
		}
		b.WriteString(content)
		for range len(content) {
			align = append(align, span)
		}
		last = m.End
	}
	b.WriteString(s.text[last:])
	s.text, s.align = b.String(), append(align, old[last:]...)
}
