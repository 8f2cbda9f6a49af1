package metrics

import (
	"strings"
	"unicode"
)

// CER is the character error rate of recognized text: the edits (substitutions, deletions, insertions) that turn the references into the
// predictions, summed over the set, divided by the references' characters. It is jiwer.cer of the whole set.
//
// A character is a Unicode code point: é as one and as e with an accent differ, so bring both sides to one normal form first. White space
// around a text does not count. A text with an empty reference adds its characters to the edits and nothing to the
// divisor; if all references are empty the rate is the number of edits, as jiwer has it. The rate can exceed 1.
type CER struct {
	// CollapseSpaces takes two or more white-space characters in a row for one space, as Hezar's CER does. Word error
	// rates always do.
	CollapseSpaces bool

	rate rate
}

// Name returns "cer".
func (c *CER) Name() string { return "cer" }

// Add counts one pair of texts.
func (c *CER) Add(prediction, reference string) {
	if c.CollapseSpaces {
		prediction, reference = collapseSpaces(prediction), collapseSpaces(reference)
	}
	p, r := []rune(strip(prediction)), []rune(strip(reference))
	c.rate.add(Levenshtein(p, r), len(r))
}

// Result returns "cer".
func (c *CER) Result() map[string]float64 { return map[string]float64{c.Name(): c.rate.value()} }

// Reset forgets all pairs.
func (c *CER) Reset() { c.rate = rate{} }

// WER is the word error rate: as [CER], but of words, which are what spaces separate. It is jiwer.wer of the whole set.
type WER struct {
	rate rate
}

// Name returns "wer".
func (w *WER) Name() string { return "wer" }

// Add counts one pair of texts.
func (w *WER) Add(prediction, reference string) {
	p, r := words(prediction), words(reference)
	w.rate.add(Levenshtein(p, r), len(r))
}

// Result returns "wer".
func (w *WER) Result() map[string]float64 { return map[string]float64{w.Name(): w.rate.value()} }

// Reset forgets all pairs.
func (w *WER) Reset() { w.rate = rate{} }

// rate is a number of edits and of what could have been right.
type rate struct {
	edits, total int64
}

func (r *rate) add(edits, total int) {
	r.edits += int64(edits)
	r.total += int64(total)
}

func (r *rate) value() float64 {
	if r.total == 0 {
		return float64(r.edits)
	}
	return float64(r.edits) / float64(r.total)
}

// words splits a text as jiwer does: at spaces only, once runs of white space have become one.
func words(s string) []string {
	words := strings.Split(strip(collapseSpaces(s)), " ")
	kept := words[:0]
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// strip is Python's str.strip.
func strip(s string) string { return strings.TrimFunc(s, isSpace) }

// collapseSpaces is re.sub(r"\s\s+", " ", s): a single tab stays a tab.
func collapseSpaces(s string) string {
	var b strings.Builder
	run := []rune(nil)
	flush := func() {
		switch len(run) {
		case 0:
		case 1:
			b.WriteRune(run[0])
		default:
			b.WriteByte(' ')
		}
		run = run[:0]
	}
	for _, r := range s {
		if isSpace(r) {
			run = append(run, r)
			continue
		}
		flush()
		b.WriteRune(r)
	}
	flush()
	return b.String()
}

// isSpace is Python's str.isspace, which counts the four information separators too.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }
