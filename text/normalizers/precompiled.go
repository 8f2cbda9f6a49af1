package normalizers

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// Precompiled is SentencePiece's normalizer, a table that its models contain, such as those of T5,
// XLM-R, mBART and ALBERT. Make one with [NewPrecompiled].
//
// As in the reference, each grapheme cluster of less than six bytes is looked up in the table, and
// if it has no entry, each code point; the shortest entry that the cluster begins with replaces all
// of it. SentencePiece itself takes the longest entry, regardless of clusters.
type Precompiled struct {
	charsmap   []byte
	units      []uint32 // of a double-array trie over bytes
	normalized string   // the replacements, each followed by a zero byte
}

// NewPrecompiled reads the table precompiled_charsmap of a SentencePiece model: the size of a trie
// in four bytes, the trie of the library Darts-clone in units of four bytes, little-endian, and the
// text that its values point into. It keeps the table.
func NewPrecompiled(charsmap []byte) (*Precompiled, error) {
	if len(charsmap) < 4 {
		return nil, fmt.Errorf("precompiled_charsmap has %d bytes; want the four of its trie's size and the trie",
			len(charsmap))
	}
	size := int64(binary.LittleEndian.Uint32(charsmap))
	rest := charsmap[4:]
	if size == 0 || size%4 != 0 || size > int64(len(rest)) {
		return nil, fmt.Errorf("precompiled_charsmap has a trie of %d bytes in %d; want a multiple of 4, and one "+
			"unit at least", size, len(rest))
	}
	n := &Precompiled{charsmap: charsmap, units: make([]uint32, size/4), normalized: string(rest[size:])}
	if !utf8.ValidString(n.normalized) {
		return nil, fmt.Errorf("precompiled_charsmap: the %d bytes of normalized text behind the trie are no UTF-8",
			len(n.normalized))
	}
	for i := range n.units {
		u := binary.LittleEndian.Uint32(rest[4*i:])
		n.units[i] = u
		if at := u &^ leaf; u&leaf != 0 && !n.textBegins(at) {
			return nil, fmt.Errorf("precompiled_charsmap: unit %d of the trie points to byte %d of a normalized text "+
				"of %d bytes, where no character begins", i, at, len(n.normalized))
		}
	}
	return n, nil
}

// leaf marks a unit of the trie that is a value.
const leaf = 1 << 31

func (n *Precompiled) textBegins(at uint32) bool {
	return int64(at) == int64(len(n.normalized)) || int64(at) < int64(len(n.normalized)) &&
		utf8.RuneStart(n.normalized[at])
}

// offset returns the offset from the unit of a state to the units of its children.
func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// lookup returns the replacement of the shortest entry that text begins with.
func (n *Precompiled) lookup(text string) (replacement string, found bool) {
	n.entries(text, func(_ int, with string) bool {
		replacement, found = with, true
		return false
	})
	return replacement, found
}

// entries calls f for the entries that text begins with, the shortest first, with their lengths and
// replacements, until f returns false.
func (n *Precompiled) entries(text string, f func(length int, replacement string) bool) {
	at := offset(n.units[0])
	for i := range len(text) {
		c := uint32(text[i])
		at ^= c
		if c == 0 || int64(at) >= int64(len(n.units)) || n.units[at]&(leaf|0xFF) != c {
			return
		}
		unit := n.units[at]
		at ^= offset(unit)
		if unit>>8&1 == 0 {
			continue
		}
		if int64(at) >= int64(len(n.units)) || !n.textBegins(n.units[at]&^leaf) {
			return // a damaged table, for which the reference panics
		}
		from := int(n.units[at] &^ leaf)
		end := from
		for end < len(n.normalized) && n.normalized[end] != 0 {
			end++
		}
		if !f(i+1, n.normalized[from:end]) {
			return
		}
	}
}

// Longest applies the table of a [Precompiled] as SentencePiece itself does: at each place of a text,
// the longest entry is replaced. tokenizer.json has no such normalizer.
type Longest struct{ Table *Precompiled }

// Normalize applies the table.
func (n Longest) Normalize(s *String) {
	changes := make([]change, 0, len(s.text))
	modified := false
	for at := 0; at < len(s.text); {
		length, text := 0, ""
		n.Table.entries(s.text[at:], func(l int, replacement string) bool {
			length, text = l, replacement
			return true
		})
		if length == 0 {
			r, size := utf8.DecodeRuneInString(s.text[at:])
			changes = append(changes, change{r, 0})
			at += size
			continue
		}
		changes, modified = replaced(changes, utf8.RuneCountInString(s.text[at:at+length]), text), true
		at += length
	}
	if modified {
		s.transform(changes, 0)
	}
}

// clusterLimit is the size in bytes from which clusters are not looked up as a whole.
const clusterLimit = 6

// Normalize applies the table.
func (n *Precompiled) Normalize(s *String) {
	changes := make([]change, 0, len(s.text))
	modified := false
	clusters := ucd.NewClusters(s.text)
	for at := 0; at < len(s.text); {
		cluster := s.text[at : at+clusters.Next()]
		at += len(cluster)
		if len(cluster) < clusterLimit {
			if text, ok := n.lookup(cluster); ok {
				changes, modified = replaced(changes, utf8.RuneCountInString(cluster), text), true
				continue
			}
		}
		for i, r := range cluster {
			if text, ok := n.lookup(cluster[i : i+utf8.RuneLen(r)]); ok {
				changes, modified = replaced(changes, 1, text), true
			} else {
				changes = append(changes, change{r, 0})
			}
		}
	}
	if modified {
		s.transform(changes, 0)
	}
}

// replaced appends the characters of text, which replace count others. If they are fewer, the
// removed characters are attributed to the last character so far, of this text or an earlier one.
// At the start of a text there is none, and the spans of everything after it are shifted, as in the
// reference.
func replaced(changes []change, count int, text string) []change {
	for _, r := range text {
		changes = append(changes, change{r, 0})
	}
	more := utf8.RuneCountInString(text) - count
	for i := range more {
		changes[len(changes)-1-i].delta = 1
	}
	if more < 0 && len(changes) > 0 {
		changes[len(changes)-1].delta += more
	}
	return changes
}

type precompiledJSON struct {
	Charsmap *[]byte `json:"precompiled_charsmap"` // in base64, as in encoding/json
}

// MarshalJSON writes the type and the table.
func (n *Precompiled) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("Precompiled", precompiledJSON{&n.charsmap})
}

func parsePrecompiled(raw json.RawMessage) (Normalizer, error) {
	f, err := tagged.Decode[precompiledJSON](raw, "precompiled_charsmap")
	if err != nil {
		return nil, err
	}
	if f.Charsmap == nil {
		return nil, fmt.Errorf("precompiled_charsmap is null; want a table in base64")
	}
	return NewPrecompiled(*f.Charsmap)
}
