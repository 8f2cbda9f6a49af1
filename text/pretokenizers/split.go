package pretokenizers

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/normalizers"
)

// Split splits at the matches of a pattern. Make one with [NewSplit] or [NewSplitRegexp].
type Split struct {
	Spec     normalizers.PatternSpec `json:"pattern"`
	Behavior normalizers.Behavior    `json:"behavior"`
	Invert   bool                    `json:"invert"` // split at the text that does not match
	pattern  normalizers.Pattern
}

// NewSplit splits at a literal text.
func NewSplit(at string, behavior normalizers.Behavior) Split {
	return Split{Spec: normalizers.PatternSpec{String: &at}, Behavior: behavior, pattern: normalizers.Literal(at)}
}

// NewSplitRegexp splits at the matches of a regular expression; [normalizers.Regexp] says what it
// may contain.
func NewSplitRegexp(pattern string, behavior normalizers.Behavior) (Split, error) {
	compiled, err := normalizers.Regexp(pattern)
	return Split{Spec: normalizers.PatternSpec{Regex: &pattern}, Behavior: behavior, pattern: compiled}, err
}

// PreTokenize splits the text.
func (p Split) PreTokenize(s String) []String {
	if p.Invert {
		return s.Split(normalizers.Inverted{Pattern: p.pattern}, p.Behavior)
	}
	return s.Split(p.pattern, p.Behavior)
}

// MarshalJSON writes the type and the settings.
func (p Split) MarshalJSON() ([]byte, error) {
	type fields Split
	return tagged.Marshal("Split", fields(p))
}

// ByteLevel is GPT-2's pre-tokenizer: it splits by GPT-2's pattern and replaces each byte by the
// printable character that stands for it. It is also a post-processor, which uses TrimOffsets and
// AddPrefixSpace, and a decoder.
type ByteLevel struct {
	AddPrefixSpace bool `json:"add_prefix_space"` // put a space before a text that begins without one
	TrimOffsets    bool `json:"trim_offsets"`     // the post-processor excludes white space from the offsets
	UseRegex       bool `json:"use_regex"`        // split by GPT-2's pattern
}

// DefaultByteLevel returns a ByteLevel with everything switched on, the default of the reference.
func DefaultByteLevel() ByteLevel {
	return ByteLevel{AddPrefixSpace: true, TrimOffsets: true, UseRegex: true}
}

// PreTokenize splits the text.
func (p ByteLevel) PreTokenize(s String) []String {
	if p.AddPrefixSpace && !strings.HasPrefix(s.Text(), " ") {
		s.Prepend(" ")
	}
	words := []String{s}
	if p.UseRegex {
		words = s.Split(normalizers.GPT2, normalizers.Isolated)
	}
	for i := range words {
		words[i].Bytes()
	}
	return words
}

// MarshalJSON writes the type and the settings.
func (p ByteLevel) MarshalJSON() ([]byte, error) {
	type fields ByteLevel
	return tagged.Marshal("ByteLevel", fields(p))
}

// ParseByteLevel reads the component "ByteLevel", which is a pre-tokenizer, a post-processor and a
// decoder.
func ParseByteLevel(raw json.RawMessage) (ByteLevel, error) {
	f, err := tagged.Decode[struct {
		AddPrefixSpace bool  `json:"add_prefix_space"`
		TrimOffsets    bool  `json:"trim_offsets"`
		UseRegex       *bool `json:"use_regex"`
	}](raw, "add_prefix_space", "trim_offsets")
	return ByteLevel{f.AddPrefixSpace, f.TrimOffsets, f.UseRegex == nil || *f.UseRegex}, err
}

// The values of [Metaspace]'s field PrependScheme.
const (
	PrependAlways = "always" // put the replacement before every text
	PrependFirst  = "first"  // only before a text at the start of the input, not after a special token
	PrependNever  = "never"
)

// Metaspace makes spaces visible, as SentencePiece does, and splits before each. It is also a
// decoder.
type Metaspace struct {
	Replacement   rune   // what a space becomes: ▁
	PrependScheme string // which texts get one before them; empty means [PrependAlways]
	NoSplit       bool   // do not split
}

// PreTokenize splits the text.
func (p Metaspace) PreTokenize(s String) []String {
	mark := string(p.Replacement)
	s.Replace(normalizers.RuneFunc(func(r rune) bool { return r == ' ' }), mark)
	if !strings.HasPrefix(s.Text(), mark) && p.PrependScheme != PrependNever && (p.PrependScheme != PrependFirst ||
		s.Start() == 0) {
		s.Prepend(mark)
	}
	if p.NoSplit {
		return []String{s}
	}
	return s.Split(normalizers.RuneFunc(func(r rune) bool { return r == p.Replacement }), normalizers.MergedWithNext)
}

type metaspaceJSON struct {
	Replacement    string `json:"replacement"`
	AddPrefixSpace *bool  `json:"add_prefix_space,omitempty"`
	PrependScheme  string `json:"prepend_scheme"`
	Split          *bool  `json:"split"`
}

// MarshalJSON writes the type and the settings.
func (p Metaspace) MarshalJSON() ([]byte, error) {
	split := !p.NoSplit
	if p.PrependScheme == "" {
		p.PrependScheme = PrependAlways
	}
	return tagged.Marshal("Metaspace", metaspaceJSON{Replacement: string(p.Replacement), PrependScheme: p.PrependScheme,
		Split: &split})
}

// ParseMetaspace reads the component "Metaspace", which is a pre-tokenizer and a decoder.
func ParseMetaspace(raw json.RawMessage) (Metaspace, error) {
	f, err := tagged.Decode[metaspaceJSON](raw, "replacement")
	if err != nil {
		return Metaspace{}, err
	}
	mark, err := oneRune("replacement", f.Replacement)
	if err != nil {
		return Metaspace{}, err
	}
	switch f.PrependScheme {
	case "":
		f.PrependScheme = PrependAlways
	case PrependAlways, PrependFirst, PrependNever:
	default:
		return Metaspace{}, fmt.Errorf("unknown prepend_scheme %q; want always, first or never", f.PrependScheme)
	}
	if f.AddPrefixSpace != nil && !*f.AddPrefixSpace && f.PrependScheme != PrependNever {
		return Metaspace{}, fmt.Errorf("add_prefix_space is false, but prepend_scheme is %q", f.PrependScheme)
	}
	return Metaspace{mark, f.PrependScheme, f.Split != nil && !*f.Split}, nil
}

func oneRune(field, s string) (rune, error) {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || n != len(s) {
		return 0, fmt.Errorf("field %q is %q; want one character", field, s)
	}
	return r, nil
}
