package ucd

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// The constants of the algorithmic decomposition of Hangul syllables (Unicode, section 3.12).
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7
	leads, vowels, trails              = 19, 21, 28
	syllables                          = leads * vowels * trails
)

// maps decodes one of the strings of tables.go.
func maps(table string) map[rune]string {
	m := make(map[rune]string, strings.Count(table, "\x00"))
	for entry := range strings.SplitSeq(strings.TrimSuffix(table, "\x00"), "\x00") {
		r, n := utf8.DecodeRuneInString(entry)
		m[r] = entry[n:]
	}
	return m
}

var (
	canonicals  = sync.OnceValue(func() map[rune]string { return maps(canonical) })
	compatibles = sync.OnceValue(func() map[rune]string { return maps(compatible) })
	lowers      = sync.OnceValue(func() map[rune]string { return maps(lower) })
	compounds   = sync.OnceValue(func() map[[2]rune]rune {
		m := map[[2]rune]rune{}
		r := []rune(compositions)
		for i := 0; i+2 < len(r); i += 3 {
			m[[2]rune{r[i], r[i+1]}] = r[i+2]
		}
		return m
	})
)

// Decompose returns the full canonical decomposition of r, or if compatibility is set its full
// compatibility decomposition; false if r does not change.
func Decompose(r rune, compatibility bool) (string, bool) {
	if r < 0xA0 {
		return "", false
	}
	if s := r - hangulS; s >= 0 && s < syllables {
		jamo := []rune{hangulL + s/(vowels*trails), hangulV + s%(vowels*trails)/trails, hangulT + s%trails}
		if s%trails == 0 {
			jamo = jamo[:2]
		}
		return string(jamo), true
	}
	if compatibility {
		if d, ok := compatibles()[r]; ok {
			return d, true
		}
	}
	d, ok := canonicals()[r]
	return d, ok
}

// Compose returns the code point that a and b compose to.
func Compose(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < leads && v >= 0 && v < vowels {
		return hangulS + (l*vowels+v)*trails, true
	}
	if s, t := a-hangulS, b-hangulT; s >= 0 && s < syllables && s%trails == 0 && t > 0 && t < trails {
		return a + t, true
	}
	r, ok := compounds()[[2]rune{a, b}]
	return r, ok
}

// Lower returns the lower-case form of r, of one code point or more; false if r does not change.
func Lower(r rune) (string, bool) {
	s, ok := lowers()[r]
	return s, ok
}
