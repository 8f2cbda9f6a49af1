package ucd

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestRunsAndTableAgree(t *testing.T) {
	table, runs, next := Load(), runs(), 0
	for r := rune(0); r <= utf8.MaxRune; r++ {
		for next+1 < len(runs) && runs[next+1].start <= uint32(r) {
			next++
		}
		if got := table.Of(r); got != Props(runs[next].props) {
			t.Fatalf("Of(%U) = %x, want %x", r, got, runs[next].props)
		}
	}
	if table.Of(-1) != table.Of(utf8.RuneError) || table.Of(utf8.MaxRune+1) != table.Of(utf8.RuneError) {
		t.Error("what is no code point is not read as U+FFFD")
	}
}

// The reference's white space equals Go's. Its punctuation is that of an older Unicode version,
// which differs only in characters added later and in marks that moved to other categories.
func TestHowTheReferenceDiffersFromGo(t *testing.T) {
	older := map[rune]bool{}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if r >= 0xD800 && r <= 0xDFFF {
			continue
		}
		p := Load().Of(r)
		if p.Is(Space) != unicode.IsSpace(r) {
			t.Errorf("%U: white space is %v, Go says %v", r, p.Is(Space), unicode.IsSpace(r))
		}
		if p.Is(Punctuation) && !unicode.IsPunct(r) && r >= utf8.RuneSelf {
			older[r] = true
		}
	}
	if len(older) != 2 || !older[0x166D] || !older[0x111C9] {
		t.Errorf("punctuation of Unicode 8 that is none in Go is %v; want U+166D and U+111C9", older)
	}
}

func TestDecompositionsComposeAgain(t *testing.T) {
	for pair, r := range compounds() {
		d, ok := Decompose(r, false)
		if !ok {
			t.Fatalf("%U composes of %U and does not decompose", r, pair)
		}
		if last, _ := utf8.DecodeLastRuneInString(d); last != pair[1] {
			t.Errorf("%U ends with %U, composed with %U", r, last, pair[1])
		}
	}
	for r := rune(hangulS); r < hangulS+syllables; r++ {
		d, _ := Decompose(r, false)
		jamo := []rune(d)
		c, ok := Compose(jamo[0], jamo[1])
		if ok && len(jamo) == 3 {
			c, ok = Compose(c, jamo[2])
		}
		if !ok || c != r {
			t.Fatalf("%U decomposes to %U and composes to %U", r, jamo, c)
		}
	}
}
