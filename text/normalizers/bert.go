package normalizers

import (
	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// BertNormalizer cleans a text as BERT's basic tokenizer does. [DefaultBertNormalizer] has the
// settings of the uncased models.
type BertNormalizer struct {
	CleanText          bool  `json:"clean_text"`           // remove control characters, replace white space by spaces
	HandleChineseChars bool  `json:"handle_chinese_chars"` // put spaces around Chinese ideographs
	StripAccents       *bool `json:"strip_accents"`        // remove accents; nil means if Lowercase is set
	Lowercase          bool  `json:"lowercase"`
}

// DefaultBertNormalizer returns the normalizer of bert-base-uncased, with everything switched on.
func DefaultBertNormalizer() BertNormalizer {
	return BertNormalizer{CleanText: true, HandleChineseChars: true, Lowercase: true}
}

// Normalize cleans the text.
func (n BertNormalizer) Normalize(s *String) {
	table := ucd.Load()
	if n.CleanText {
		s.Filter(func(r rune) bool { return !table.Of(r).Is(ucd.Control) })
		s.Map(func(r rune) rune {
			if table.Of(r).Is(ucd.Space) {
				return ' '
			}
			return r
		})
	}
	if n.HandleChineseChars {
		n.separate(s)
	}
	if n.AccentsStripped() {
		NFD{}.Normalize(s)
		s.Filter(func(r rune) bool { return !table.Of(r).Is(ucd.MarkNonspacing) })
	}
	if n.Lowercase {
		Lowercase{}.Normalize(s)
	}
}

// AccentsStripped reports whether accents are removed.
func (n BertNormalizer) AccentsStripped() bool {
	if n.StripAccents != nil {
		return *n.StripAccents
	}
	return n.Lowercase
}

func (n BertNormalizer) separate(s *String) {
	found := false
	changes := make([]change, 0, len(s.text))
	for _, r := range s.text {
		if ChineseChar(r) {
			found = true
			changes = append(changes, change{' ', 0}, change{r, 1}, change{' ', 1})
		} else {
			changes = append(changes, change{r, 0})
		}
	}
	if found {
		s.transform(changes, 0)
	}
}

// ChineseChar reports whether BERT puts spaces around r. The blocks are those of the reference,
// whose extension E begins at U+2B920.
func ChineseChar(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r >= 0x4E00 && r <= 0x9FFF, r >= 0x3400 && r <= 0x4DBF, r >= 0x20000 && r <= 0x2A6DF, r >= 0x2A700 &&
		r <= 0x2B73F,
		r >= 0x2B740 && r <= 0x2B81F, r >= 0x2B920 && r <= 0x2CEAF, r >= 0xF900 && r <= 0xFAFF, r >= 0x2F800 &&
			r <= 0x2FA1F:
		return true
	}
	return false
}

// MarshalJSON writes the type and the settings.
func (n BertNormalizer) MarshalJSON() ([]byte, error) {
	type fields BertNormalizer
	return tagged.Marshal("BertNormalizer", fields(n))
}
