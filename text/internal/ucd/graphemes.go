package ucd

import (
	"sync"
	"unicode/utf8"
)

// The classes of code points in grapheme clusters, in the order of gen/graphemes.py: the values of
// the property Grapheme_Cluster_Break, and two more for code points that have none.
const (
	anyClass Props = iota
	cr
	lf
	controlClass
	extend
	joiner // zero width joiner
	regional
	prepend
	spacingMark
	hangulLead
	hangulVowel
	hangulTrail
	hangulLV
	hangulLVT
	pictographic
	consonant // Indic_Conjunct_Break=Consonant: a linker binds it to the next one

	classMask    Props = 15
	indicExtends Props = 16 // Indic_Conjunct_Break=Extend
	indicLinks   Props = 32 // Indic_Conjunct_Break=Linker
)

var graphemes = sync.OnceValue(func() *Table { return build(decode(graphemeData)) })

// Clusters finds the extended grapheme clusters of a text, the user-perceived characters, one by
// one, by the rules GB1 to GB999 of Unicode Standard Annex 29 and the tables of Unicode 17.
type Clusters struct {
	text  string
	table *Table
}

// NewClusters begins at the start of a text.
func NewClusters(text string) Clusters { return Clusters{text, graphemes()} }

// before is the state that the rules need of the text before a boundary.
type before struct {
	class    Props
	flags    int  // regional indicators in a row
	picture  bool // a pictograph, followed only by extending marks and perhaps a joiner at the end
	conjunct bool // a consonant, followed only by linkers and extending code points
	linked   bool // with at least one linker
}

func (b *before) pass(p Props) {
	class := p & classMask
	if class == regional {
		b.flags++
	} else {
		b.flags = 0
	}
	// A joiner binds pictographs only directly before the next one: two joiners in a row do not.
	b.picture = class == pictographic || b.picture && (class == extend || class == joiner) && b.class != joiner
	switch {
	case class == consonant:
		b.conjunct, b.linked = true, false
	case p&indicLinks != 0:
		b.linked = true
	case p&indicExtends == 0:
		b.conjunct = false
	}
	b.class = class
}

// Next returns the length of the next cluster and moves past it; zero at the end of the text.
func (c *Clusters) Next() int {
	text := c.text
	if len(text) < 2 || plain(text[0]) && plain(text[1]) {
		n := min(len(text), 1)
		c.text = text[n:]
		return n
	}
	r, i := utf8.DecodeRuneInString(text)
	var b before
	b.pass(c.table.Of(r))
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		p := c.table.Of(r)
		if b.boundary(p & classMask) {
			break
		}
		b.pass(p)
		i += n
	}
	c.text = text[i:]
	return i
}

// plain reports whether b is printable ASCII, which forms a longer cluster only with marks that
// follow.
func plain(b byte) bool { return b >= ' ' && b < 0x7F }

// boundary reports whether a cluster ends before a code point of class after.
func (b *before) boundary(after Props) bool {
	switch {
	case b.class == cr && after == lf:
		return false
	case b.class == cr, b.class == lf, b.class == controlClass, after == cr, after == lf, after == controlClass:
		return true
	case after == extend, after == joiner, after == spacingMark, b.class == prepend:
		return false
	}
	switch after {
	case hangulLead, hangulLV, hangulLVT:
		return b.class != hangulLead
	case hangulVowel:
		return b.class != hangulLead && b.class != hangulLV && b.class != hangulVowel
	case hangulTrail:
		return b.class < hangulVowel || b.class > hangulLVT
	case consonant:
		return !(b.conjunct && b.linked)
	case pictographic:
		return !(b.picture && b.class == joiner)
	case regional:
		return b.flags%2 == 0
	}
	return true
}
