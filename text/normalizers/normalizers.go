package normalizers

import (
	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// Normalizer changes a text before it is split into words. It must be safe to use from several
// goroutines.
type Normalizer interface {
	Normalize(s *String)
}

// Sequence applies normalizers one after the other.
type Sequence []Normalizer

// Normalize applies all of them.
func (q Sequence) Normalize(s *String) {
	for _, n := range q {
		n.Normalize(s)
	}
}

// NFC is canonical composition, by the tables of Unicode 9.
type NFC struct{}

// Normalize composes the text.
func (NFC) Normalize(s *String) { s.normalForm(false, true) }

// NFD is canonical decomposition, by the tables of Unicode 9.
type NFD struct{}

// Normalize decomposes the text.
func (NFD) Normalize(s *String) { s.normalForm(false, false) }

// NFKC is compatibility decomposition followed by canonical composition, by the tables of Unicode
// 9.
type NFKC struct{}

// Normalize decomposes and composes the text.
func (NFKC) Normalize(s *String) { s.normalForm(true, true) }

// NFKD is compatibility decomposition, by the tables of Unicode 9.
type NFKD struct{}

// Normalize decomposes the text.
func (NFKD) Normalize(s *String) { s.normalForm(true, false) }

// Lowercase converts each letter to lower case by itself: a sigma at the end of a word is treated
// like any other.
type Lowercase struct{}

// Normalize converts the text to lower case.
func (Lowercase) Normalize(s *String) {
	changes := make([]change, 0, len(s.text))
	for _, r := range s.text {
		if r < 0x80 {
			if r >= 'A' && r <= 'Z' {
				r |= 0x20
			}
			changes = append(changes, change{r, 0})
			continue
		}
		small, ok := ucd.Lower(r)
		if !ok {
			changes = append(changes, change{r, 0})
			continue
		}
		for i, r := range small {
			changes = append(changes, change{r, min(i, 1)})
		}
	}
	s.transform(changes, 0)
}

// StripAccents removes combining marks of all kinds. They must be separate characters: put [NFD]
// before it.
type StripAccents struct{}

// Normalize removes the marks.
func (StripAccents) Normalize(s *String) {
	table := ucd.Load()
	s.Filter(func(r rune) bool { return !table.Of(r).Is(ucd.CombiningMark) })
}

// Strip removes white space at the ends of the text.
type Strip struct {
	Left  bool `json:"strip_left"`
	Right bool `json:"strip_right"`
}

// Normalize strips the text.
func (n Strip) Normalize(s *String) { s.Strip(n.Left, n.Right) }

// Prepend puts a prefix before a text that is not empty.
type Prepend struct {
	Prefix string `json:"prepend"`
}

// Normalize adds the prefix.
func (n Prepend) Normalize(s *String) { s.Prepend(n.Prefix) }

// ByteLevel replaces each byte by the printable character that stands for it in byte-level
// vocabularies.
type ByteLevel struct{}

// Normalize replaces the bytes.
func (ByteLevel) Normalize(s *String) { s.Bytes() }

// Nmt removes control characters and replaces the code points listed in SentencePiece's nmt rules
// by spaces.
type Nmt struct{}

// Normalize cleans the text.
func (Nmt) Normalize(s *String) {
	s.Filter(func(r rune) bool {
		switch {
		case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return false
		}
		return true
	})
	s.Map(func(r rune) rune {
		switch {
		case r == 9, r == 0xA, r == 0xC, r == 0xD, r == 0x1680, r >= 0x200B && r <= 0x200F, r == 0x2028, r == 0x2029,
			r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	})
}

// MarshalJSON writes the normalizer as it is in tokenizer.json.
func (q Sequence) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("Sequence", struct {
		Normalizers []Normalizer `json:"normalizers"`
	}{append([]Normalizer{}, q...)})
}

// MarshalJSON writes {"type":"NFC"}.
func (NFC) MarshalJSON() ([]byte, error) { return tagged.Marshal("NFC", struct{}{}) }

// MarshalJSON writes {"type":"NFD"}.
func (NFD) MarshalJSON() ([]byte, error) { return tagged.Marshal("NFD", struct{}{}) }

// MarshalJSON writes {"type":"NFKC"}.
func (NFKC) MarshalJSON() ([]byte, error) { return tagged.Marshal("NFKC", struct{}{}) }

// MarshalJSON writes {"type":"NFKD"}.
func (NFKD) MarshalJSON() ([]byte, error) { return tagged.Marshal("NFKD", struct{}{}) }

// MarshalJSON writes {"type":"Lowercase"}.
func (Lowercase) MarshalJSON() ([]byte, error) { return tagged.Marshal("Lowercase", struct{}{}) }

// MarshalJSON writes {"type":"StripAccents"}.
func (StripAccents) MarshalJSON() ([]byte, error) { return tagged.Marshal("StripAccents", struct{}{}) }

// MarshalJSON writes {"type":"ByteLevel"}.
func (ByteLevel) MarshalJSON() ([]byte, error) { return tagged.Marshal("ByteLevel", struct{}{}) }

// MarshalJSON writes {"type":"Nmt"}.
func (Nmt) MarshalJSON() ([]byte, error) { return tagged.Marshal("Nmt", struct{}{}) }

// MarshalJSON writes the type and the two sides.
func (n Strip) MarshalJSON() ([]byte, error) {
	type fields Strip
	return tagged.Marshal("Strip", fields(n))
}

// MarshalJSON writes the type and the prefix.
func (n Prepend) MarshalJSON() ([]byte, error) {
	type fields Prepend
	return tagged.Marshal("Prepend", fields(n))
}
