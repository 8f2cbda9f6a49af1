package pretokenizers

import (
	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// UnicodeScripts splits where one script ends and another begins; Hiragana and Katakana count as
// Han. Spaces belong to the word before them. As in the reference, those at the start of a text are
// lost.
type UnicodeScripts struct{}

// PreTokenize splits the text.
func (UnicodeScripts) PreTokenize(s String) []String {
	table := ucd.Scripts()
	var words []String
	last, start := ucd.AnyScript, 0
	for i, r := range s.Text() {
		script := table.Of(r)
		if script == ucd.AnyScript || script == last {
			continue
		}
		if last != ucd.AnyScript {
			words = append(words, s.Slice(start, i))
		}
		last, start = script, i
	}
	if last == ucd.AnyScript {
		return nil
	}
	return append(words, s.Slice(start, len(s.Text())))
}

// MarshalJSON writes {"type":"UnicodeScripts"}.
func (UnicodeScripts) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("UnicodeScripts", struct{}{})
}
