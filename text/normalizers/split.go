package normalizers

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Pattern finds matches in a text.
type Pattern interface {
	// Matches returns the matches in order, without overlaps.
	Matches(text string) []Span
}

// RuneFunc is a pattern that matches single characters.
type RuneFunc func(rune) bool

// Matches returns the characters for which f returns true.
func (f RuneFunc) Matches(text string) []Span {
	var found []Span
	for i, r := range text {
		if f(r) {
			found = append(found, Span{Start: i, End: i + runeLen(r, text[i:])})
		}
	}
	return found
}

// Inverted inverts a pattern for [String.Split]: the text between its matches counts as the
// matches, and the matches as the text between.
type Inverted struct{ Pattern }

// Behavior says what happens to the matches at which a text is split.
type Behavior int

// The behaviors of the reference, with the result of splitting "the-final--countdown" at "-".
const (
	Isolated           Behavior = iota // the, -, final, -, -, countdown
	Removed                            // the, final, countdown
	MergedWithPrevious                 // the-, final-, -, countdown
	MergedWithNext                     // the, -final, -, -countdown
	Contiguous                         // the, -, final, --, countdown
)

var behaviorNames = []string{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"}

// String returns the name in tokenizer.json.
func (b Behavior) String() string {
	if b < 0 || int(b) >= len(behaviorNames) {
		return fmt.Sprintf("Behavior(%d)", int(b))
	}
	return behaviorNames[b]
}

// MarshalJSON writes the name.
func (b Behavior) MarshalJSON() ([]byte, error) { return json.Marshal(b.String()) }

// UnmarshalJSON reads the name.
func (b *Behavior) UnmarshalJSON(data []byte) error {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return err
	}
	i := slices.Index(behaviorNames, name)
	if i < 0 {
		return fmt.Errorf("unknown behavior %q; want one of %q", name, behaviorNames)
	}
	*b = Behavior(i)
	return nil
}

// Split splits the text at the matches of a pattern. Pieces may be empty if the pattern has empty
// matches.
func (s *String) Split(pattern Pattern, behavior Behavior) []String {
	inverted := false
	if p, ok := pattern.(Inverted); ok {
		pattern, inverted = p.Pattern, true
	}
	matches := pattern.Matches(s.text)
	if s.text == "" || len(matches) == 0 && !inverted {
		return []String{*s}
	}
	parts := behavior.merge(between(matches, len(s.text), inverted))
	pieces := make([]String, len(parts))
	for i, p := range parts {
		pieces[i] = s.Slice(p.Start, p.End)
	}
	return pieces
}

// part is a match, or the text between two.
type part struct {
	Span
	match bool
}

// between returns the matches and the text between them, in a text of n bytes.
func between(matches []Span, n int, inverted bool) []part {
	parts := make([]part, 0, 2*len(matches)+1)
	last := 0
	for _, m := range matches {
		if m.Start > last {
			parts = append(parts, part{Span{Start: last, End: m.Start}, inverted})
		}
		parts = append(parts, part{m, !inverted})
		last = m.End
	}
	if last < n {
		parts = append(parts, part{Span{Start: last, End: n}, inverted})
	}
	return parts
}

// merge drops the matches or joins them to their neighbors, in place.
func (b Behavior) merge(parts []part) []part {
	switch b {
	case Removed:
		return slices.DeleteFunc(parts, func(p part) bool { return p.match })
	case Contiguous:
		return join(parts, func(before, p part) bool { return p.match == before.match })
	case MergedWithPrevious:
		return join(parts, func(before, p part) bool { return p.match && !before.match })
	case MergedWithNext:
		slices.Reverse(parts)
		parts = join(parts, func(behind, p part) bool { return p.match && !behind.match })
		slices.Reverse(parts)
	}
	return parts
}

// join joins each part to the one before it if belongs returns true.
func join(parts []part, belongs func(before, p part) bool) []part {
	joined := parts[:1]
	before := parts[0]
	for _, p := range parts[1:] {
		if last := &joined[len(joined)-1]; belongs(before, p) {
			last.Start, last.End = min(last.Start, p.Start), max(last.End, p.End)
		} else {
			joined = append(joined, p)
		}
		before = p
	}
	return joined
}

// Bytes replaces each byte by the printable character that stands for it in byte-level models. All
// characters made from one original character have its whole span. If repeated calls would make the
// text grow without bound, it is not changed; see [String.Err].
func (s *String) Bytes() {
	if s.err != nil || s.grows(2*len(s.text), func() string { return "a character for each byte" }) {
		return
	}
	old := s.alignments()
	changes := make([]Span, 0, len(s.text)*2)
	text := make([]byte, 0, len(s.text)*2)
	for i := range len(s.text) {
		n := len(text)
		text = utf8.AppendRune(text, byteRunes[s.text[i]])
		for range len(text) - n {
			changes = append(changes, old[i])
		}
	}
	s.text, s.align = string(text), changes
}
