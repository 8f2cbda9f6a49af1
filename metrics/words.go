package metrics

import (
	le "encoding/binary"
	"regexp"
	"strings"
	"unicode"
)

// Fields splits a text at white space, like Python's str.split.
func Fields(text string) []string { return strings.FieldsFunc(text, isSpace) }

// Words splits a text as [ROUGE] does by default: into runs of letters, marks and digits of any
// script, in lower case. A zero-width non-joiner within a word, as in Persian می‌روم, belongs to
// it. On ASCII text it is the tokenizer of rouge_score, which drops everything in another script.
func Words(text string) []string {
	var words []string
	runes := []rune(strings.ToLower(text))
	inWord := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsMark(runes[i]) ||
			unicode.IsDigit(runes[i]))
	}
	for i := 0; i < len(runes); {
		begin := i
		for inWord(i) || i > begin && isJoiner(runes[min(i, len(runes)-1)]) && inWord(i-1) && inWord(i+1) {
			i++
		}
		if i > begin {
			words = append(words, string(runes[begin:i]))
		}
		i++ // skip what ended the word
	}
	return words
}

func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

var rules13a = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile("([{-~\\[-` -&(-+:-@/])"), " $1 "},
	{regexp.MustCompile(`([^0-9])([.,])`), "$1 $2 "}, // points and commas, except between digits
	{regexp.MustCompile(`([.,])([^0-9])`), " $1 $2"},
	{regexp.MustCompile(`([0-9])(-)`), "$1 $2 "},
}

var entities13a = strings.NewReplacer("<skipped>", "", "-\n", "", "\n", " ")

// Tokenize13a splits a text as mteval-v13a and sacrebleu do by default: punctuation marks are
// separate words. It is meant for Western languages.
func Tokenize13a(text string) []string {
	text = entities13a.Replace(text)
	// one after the other, so that &amp;lt; becomes <
	for _, entity := range [][2]string{{"&quot;", `"`}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}} {
		text = strings.ReplaceAll(text, entity[0], entity[1])
	}
	text = " " + text + " "
	for _, rule := range rules13a {
		text = rule.pattern.ReplaceAllString(text, rule.with)
	}
	return Fields(text)
}

// lexicon assigns numbers to words, so that sequences of words can be compared quickly.
type lexicon map[string]uint32

func (l lexicon) numbers(words []string) []uint32 {
	numbers := make([]uint32, len(words))
	for i, w := range words {
		n, ok := l[w]
		if !ok {
			n = uint32(len(l))
			l[w] = n
		}
		numbers[i] = n
	}
	return numbers
}

// ngrams counts each sequence of n words.
func ngrams(words []uint32, n int) map[string]int64 {
	counts := make(map[string]int64, max(0, len(words)-n+1))
	key := make([]byte, 4*n)
	for i := 0; i+n <= len(words); i++ {
		for j := range n {
			le.LittleEndian.PutUint32(key[4*j:], words[i+j])
		}
		counts[string(key)]++
	}
	return counts
}
