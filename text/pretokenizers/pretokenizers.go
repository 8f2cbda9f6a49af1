package pretokenizers

import (
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
	"github.com/gotrainer/gotrainer/text/normalizers"
)

// String is a text with the spans of the original text that it stands for.
type String = normalizers.String

// PreTokenizer splits a text into words. Empty words are ignored. It must be safe to use from
// several goroutines.
type PreTokenizer interface {
	PreTokenize(s String) []String
}

// Sequence applies pre-tokenizers one after the other, each to the words of the one before it.
type Sequence []PreTokenizer

// PreTokenize applies all of them.
func (q Sequence) PreTokenize(s String) []String {
	words := []String{s}
	for _, p := range q {
		var next []String
		for _, w := range words {
			for _, piece := range p.PreTokenize(w) {
				if piece.Text() != "" {
					next = append(next, piece)
				}
			}
		}
		words = next
	}
	return words
}

func is(flags ucd.Props) normalizers.RuneFunc {
	table := ucd.Load()
	return func(r rune) bool { return table.Of(r).Is(flags) }
}

// BertPreTokenizer splits at white space, which it drops, and makes each punctuation mark a word.
type BertPreTokenizer struct{}

// PreTokenize splits the text.
func (BertPreTokenizer) PreTokenize(s String) []String {
	var words []String
	for _, w := range s.Split(is(ucd.Space), normalizers.Removed) {
		words = append(words, w.Split(is(ucd.Punctuation), normalizers.Isolated)...)
	}
	return words
}

// WhitespaceSplit splits at white space, which it drops.
type WhitespaceSplit struct{}

// PreTokenize splits the text.
func (WhitespaceSplit) PreTokenize(s String) []String {
	return s.Split(is(ucd.Space), normalizers.Removed)
}

// Whitespace makes words of runs of word characters and runs of other characters that are not white
// space: the regular expression \w+|[^\w\s]+.
type Whitespace struct{}

// PreTokenize splits the text.
func (Whitespace) PreTokenize(s String) []String {
	return s.Split(normalizers.Inverted{Pattern: wordOrSigns{}}, normalizers.Removed)
}

// wordOrSigns is the pattern \w+|[^\w\s]+.
type wordOrSigns struct{}

func (wordOrSigns) Matches(text string) []normalizers.Span {
	table := ucd.Load()
	kind := func(r rune) ucd.Props {
		switch p := table.Of(r); {
		case p.Is(ucd.Word):
			return ucd.Word
		case p.Is(ucd.Space):
			return ucd.Space
		}
		return 0
	}
	var found []normalizers.Span
	last := ucd.Space
	for i, r := range text {
		k := kind(r)
		if k == ucd.Space {
			last = k
			continue
		}
		if k != last {
			found = append(found, normalizers.Span{Start: i})
		}
		found[len(found)-1].End = i + utf8.RuneLen(r)
		last = k
	}
	return found
}

// Punctuation splits at punctuation marks.
type Punctuation struct {
	Behavior normalizers.Behavior `json:"behavior"`
}

// PreTokenize splits the text.
func (p Punctuation) PreTokenize(s String) []String {
	return s.Split(is(ucd.Punctuation), p.Behavior)
}

// Digits splits numbers from the text around them.
type Digits struct {
	Individual bool `json:"individual_digits"` // each digit is a word
}

// PreTokenize splits the text.
func (p Digits) PreTokenize(s String) []String {
	if p.Individual {
		return s.Split(is(ucd.Numeric), normalizers.Isolated)
	}
	return s.Split(is(ucd.Numeric), normalizers.Contiguous)
}

// Delimiter splits at one character, which it drops. The reference calls it CharDelimiterSplit.
type Delimiter struct{ Delimiter rune }

// PreTokenize splits the text.
func (p Delimiter) PreTokenize(s String) []String {
	return s.Split(normalizers.RuneFunc(func(r rune) bool { return r == p.Delimiter }), normalizers.Removed)
}

// FixedLength splits into words of Length characters.
type FixedLength struct {
	Length int `json:"length"`
}

// PreTokenize splits the text.
func (p FixedLength) PreTokenize(s String) []String {
	var words []String
	start, n := 0, 0
	for i := range s.Text() {
		if n == p.Length {
			words = append(words, s.Slice(start, i))
			start, n = i, 0
		}
		n++
	}
	return append(words, s.Slice(start, len(s.Text())))
}

// MarshalJSON writes the pre-tokenizer as it is in tokenizer.json.
func (q Sequence) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("Sequence", struct {
		PreTokenizers []PreTokenizer `json:"pretokenizers"`
	}{append([]PreTokenizer{}, q...)})
}

// MarshalJSON writes {"type":"BertPreTokenizer"}.
func (BertPreTokenizer) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("BertPreTokenizer", struct{}{})
}

// MarshalJSON writes {"type":"WhitespaceSplit"}.
func (WhitespaceSplit) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("WhitespaceSplit", struct{}{})
}

// MarshalJSON writes {"type":"Whitespace"}.
func (Whitespace) MarshalJSON() ([]byte, error) { return tagged.Marshal("Whitespace", struct{}{}) }

// MarshalJSON writes the type and the behavior.
func (p Punctuation) MarshalJSON() ([]byte, error) {
	type fields Punctuation
	return tagged.Marshal("Punctuation", fields(p))
}

// MarshalJSON writes the type and the setting.
func (p Digits) MarshalJSON() ([]byte, error) {
	type fields Digits
	return tagged.Marshal("Digits", fields(p))
}

// MarshalJSON writes the type and the character.
func (p Delimiter) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("CharDelimiterSplit", delimiterJSON{string(p.Delimiter)})
}

type delimiterJSON struct {
	Delimiter string `json:"delimiter"`
}

// MarshalJSON writes the type and the length.
func (p FixedLength) MarshalJSON() ([]byte, error) {
	type fields FixedLength
	return tagged.Marshal("FixedLength", fields(p))
}
