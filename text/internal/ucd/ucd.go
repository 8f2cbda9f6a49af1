// Package ucd has the Unicode properties of code points as the Hugging Face tokenizers library sees
// them.
//
// That library mixes versions of Unicode: its categories of punctuation and control characters are
// those of Unicode 8, its normalization forms those of Unicode 9, and what counts as a space, a
// digit or a letter comes from newer tables of Rust and of Oniguruma. Go's own tables are of
// another version again and move with each release of Go. So the answers of tokenizers 0.23.3 for
// every code point are frozen in the files zz_*.bin, which the programs in gen wrote by asking it
// and which are embedded; the tests compare Go's tables with them and name the differences.
package ucd

//go:generate python3 gen/tables.py
//go:generate python3 gen/graphemes.py
//go:generate python3 gen/scripts.py

import (
	"sync"
	"unicode/utf8"
)

// Props are the properties of a code point: flags, its general category and its canonical combining
// class.
type Props uint32

const (
	Space          Props = 1 << iota // Rust's char::is_whitespace, and \s
	Control                          // what BertNormalizer's clean_text removes
	Punctuation                      // ASCII punctuation and the P categories of Unicode 8
	MarkNonspacing                   // Mn of Unicode 8: what BertNormalizer's strip_accents removes
	CombiningMark                    // M of Unicode 9: what StripAccents removes
	Numeric                          // Rust's char::is_numeric
	Word                             // Rust's \w
	RegexpWord                       // Oniguruma's \w
)

// Is reports whether at least one of the flags is set.
func (p Props) Is(flags Props) bool { return p&flags != 0 }

// CombiningClass returns the canonical combining class, zero for starters.
func (p Props) CombiningClass() uint8 { return uint8(p >> 16) }

// Category returns the general category, as Oniguruma has it.
func (p Props) Category() Category { return Category(p >> 8 & 0xff) }

// Category is a general category of Unicode.
type Category uint8

// The general categories, in the order of gen/tables.py.
const (
	Cn Category = iota
	Cc
	Cf
	Co
	Cs
	Lu
	Ll
	Lt
	Lm
	Lo
	Mn
	Mc
	Me
	Nd
	Nl
	No
	Pc
	Pd
	Ps
	Pe
	Pi
	Pf
	Po
	Sm
	Sc
	Sk
	So
	Zs
	Zl
	Zp
)

// Letter reports whether the category is one of L.
func (c Category) Letter() bool { return c >= Lu && c <= Lo }

// Mark reports whether the category is one of M.
func (c Category) Mark() bool { return c >= Mn && c <= Me }

// Number reports whether the category is one of N.
func (c Category) Number() bool { return c >= Nd && c <= No }

// Table is a two-level table of properties, with pages of 256 code points.
type Table struct {
	index [(utf8.MaxRune + 1) >> 8]uint16
	pages [][256]Props
}

// Of returns the properties of r; those of U+FFFD if r is not a code point.
func (t *Table) Of(r rune) Props {
	if uint32(r) > utf8.MaxRune {
		r = utf8.RuneError
	}
	return t.pages[t.index[r>>8]][r&0xff]
}

// Load returns the table; the first call builds it.
var Load = sync.OnceValue(func() *Table { return build(runs()) })

// build makes a table from runs.
func build(runs []run) *Table {
	t := new(Table)
	uniform := map[uint32]uint16{} // shared pages whose code points all have the same properties
	next := 0
	for page := range t.index {
		first := uint32(page) << 8
		for next+1 < len(runs) && runs[next+1].start <= first {
			next++
		}
		if props := runs[next].props; next+1 == len(runs) || runs[next+1].start >= first+256 {
			if _, ok := uniform[props]; !ok {
				var p [256]Props
				for i := range p {
					p[i] = Props(props)
				}
				uniform[props] = uint16(len(t.pages))
				t.pages = append(t.pages, p)
			}
			t.index[page] = uniform[props]
			continue
		}
		var p [256]Props
		at := next
		for i := range p {
			for at+1 < len(runs) && runs[at+1].start <= first+uint32(i) {
				at++
			}
			p[i] = Props(runs[at].props)
		}
		t.index[page] = uint16(len(t.pages))
		t.pages = append(t.pages, p)
	}
	return t
}

// Ranges calls yield with the first and last code point of each range for which keep returns true.
func Ranges(keep func(Props) bool, yield func(first, last rune)) {
	first, open := rune(0), false
	for _, r := range runs() {
		switch k := keep(Props(r.props)); {
		case k && !open:
			first, open = rune(r.start), true
		case !k && open:
			yield(first, rune(r.start)-1)
			open = false
		}
	}
	if open {
		yield(first, utf8.MaxRune)
	}
}
