package normalizers

import (
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// scanners holds the patterns with lookaheads that are recognized by their text.
var scanners = map[string]Pattern{
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:                                          GPT2,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: scanner{3},
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:      scanner{1},
}

// GPT2 is the splitting pattern of GPT-2: contractions, then letters, digits or other characters
// with at most one space before them, then spaces.
var GPT2 Pattern = scanner{}

// scanner matches like GPT-2's pattern if digits is zero; otherwise like those of Llama 3 and Qwen
// 2, with at most that many digits in a match.
type scanner struct{ digits int }

// kind is a class of characters that the patterns distinguish.
type kind uint8

const (
	other kind = iota
	letter
	number
	space
	end // the end of the text
)

type cursor struct {
	text  string
	table *ucd.Table
}

// at returns the character at byte i, its kind and its length.
func (c cursor) at(i int) (rune, kind, int) {
	if i >= len(c.text) {
		return 0, end, 0
	}
	r, n := rune(c.text[i]), 1
	if r >= utf8.RuneSelf {
		r, n = utf8.DecodeRuneInString(c.text[i:])
	}
	p := c.table.Of(r)
	switch {
	case p.Category().Letter():
		return r, letter, n
	case p.Category().Number():
		return r, number, n
	case p.Is(ucd.Space):
		return r, space, n
	}
	return r, other, n
}

// run returns the end of the run of characters of a kind that begins at i.
func (c cursor) run(i int, of kind) int {
	for {
		_, k, n := c.at(i)
		if k != of {
			return i
		}
		i += n
	}
}

func (p scanner) Matches(text string) []Span {
	c := cursor{text, ucd.Load()}
	spans := make([]Span, 0, len(text)/4+1)
	for i := 0; i < len(text); {
		j := p.next(c, i)
		spans = append(spans, Span{Start: i, End: j})
		i = j
	}
	return spans
}

// next returns the end of the match that begins at i. At every position, one of the alternatives
// matches.
func (p scanner) next(c cursor, i int) int {
	if n := contraction(c.text[i:], p.digits > 0); n > 0 {
		return i + n
	}
	if p.digits == 0 {
		return p.gpt2(c, i)
	}
	r, k, n := c.at(i)
	lineEnd := r == '\r' || r == '\n'
	switch k {
	case letter:
		return c.run(i, letter)
	case number:
		j := i + n
		for range p.digits - 1 {
			_, k, n := c.at(j)
			if k != number {
				break
			}
			j += n
		}
		return j
	}
	if !lineEnd { // one character that is neither a letter nor a digit may precede letters
		if j := c.run(i+n, letter); j > i+n {
			return j
		}
	}
	from := i
	if r == ' ' {
		from++
	}
	if j := c.run(from, other); j > from {
		for j < len(c.text) && (c.text[j] == '\r' || c.text[j] == '\n') {
			j++
		}
		return j
	}
	spaces := c.run(i, space)
	if last := strings.LastIndexAny(c.text[i:spaces], "\r\n"); last >= 0 {
		return i + last + 1
	}
	return lastSpaceApart(c, i, spaces)
}

func (p scanner) gpt2(c cursor, i int) int {
	from := i
	if c.text[i] == ' ' {
		from++
	}
	if _, k, n := c.at(from); k != space && k != end {
		return c.run(from+n, k)
	}
	return lastSpaceApart(c, i, c.run(i, space))
}

// lastSpaceApart matches \s+(?!\S)|\s+: of several spaces before another character, it leaves out
// the last.
func lastSpaceApart(c cursor, start, stop int) int {
	if stop == len(c.text) {
		return stop
	}
	_, n := utf8.DecodeLastRuneInString(c.text[start:stop])
	if stop-n > start {
		return stop - n
	}
	return stop
}

// contraction returns the length of the English contraction at the start of the text, zero if there
// is none. fold ignores case.
func contraction(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	a, b := text[1], byte(0)
	if len(text) > 2 {
		b = text[2]
	}
	if fold {
		if strings.HasPrefix(text[1:], "ſ") { // U+017F folds to s
			return 1 + len("ſ")
		}
		a, b = a|0x20, b|0x20
	}
	switch {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}
