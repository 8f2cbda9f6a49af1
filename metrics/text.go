package metrics

import (
	"strings"
	"unicode"
)

// CER is the character error rate of recognized text: the edits (substitutions, deletions,
// insertions) that turn the references into the predictions, summed over the set, divided by the
// references' characters. It is jiwer.cer of the whole set.
//
// A character is a Unicode code point: é as one code point and as e with an accent differ, so
// convert both sides to the same normal form first. White space around a text is ignored. A text
// with an empty reference adds its characters to the edits and nothing to the divisor; if all
// references are empty, the rate is the number of edits, as in jiwer. The rate can exceed 1.
type CER struct {
	// CollapseSpaces replaces two or more white-space characters in a row by one space, as Hezar's
	// CER does. Word error rates always do so.
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

// AddReferences counts one text that may be any of the references: the one with the lowest rate
// counts, or the first of several. No reference counts as an empty one.
func (c *CER) AddReferences(prediction string, references ...string) {
	c.Add(prediction, nearest(references, func(reference string) float64 {
		one := CER{CollapseSpaces: c.CollapseSpaces}
		one.Add(prediction, reference)
		return one.rate.value()
	}))
}

// Result returns "cer".
func (c *CER) Result() map[string]float64 { return map[string]float64{c.Name(): c.rate.value()} }

// Reset forgets all pairs.
func (c *CER) Reset() { c.rate = rate{} }

// State implements [Merger].
func (c *CER) State() ([]byte, error) { return pack(c.kind(), c.rate) }

// Merge implements [Merger].
func (c *CER) Merge(state []byte) error { return c.rate.mergeState(state, c.kind()) }

func (c *CER) kind() string {
	if c.CollapseSpaces {
		return "cer with collapsed spaces"
	}
	return "cer"
}

// WER is the word error rate: like [CER] but for words, which are separated by spaces. It is
// jiwer.wer of the whole set.
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

// AddReferences is like that of [CER].
func (w *WER) AddReferences(prediction string, references ...string) {
	w.Add(prediction, nearest(references, func(reference string) float64 {
		var one WER
		one.Add(prediction, reference)
		return one.rate.value()
	}))
}

// Result returns "wer".
func (w *WER) Result() map[string]float64 { return map[string]float64{w.Name(): w.rate.value()} }

// Reset forgets all pairs.
func (w *WER) Reset() { w.rate = rate{} }

// State implements [Merger].
func (w *WER) State() ([]byte, error) { return pack(w.Name(), w.rate) }

// Merge implements [Merger].
func (w *WER) Merge(state []byte) error { return w.rate.mergeState(state, w.Name()) }

// rate is a number of edits and the length of the references.
type rate struct {
	Edits, Total int64
}

func (r *rate) add(edits, total int) {
	r.Edits += int64(edits)
	r.Total += int64(total)
}

func (r *rate) value() float64 {
	if r.Total == 0 {
		return float64(r.Edits)
	}
	return float64(r.Edits) / float64(r.Total)
}

func (r *rate) mergeState(state []byte, kind string) error {
	var o rate
	if err := unpack(state, kind, &o); err != nil {
		return err
	}
	r.Edits += o.Edits
	r.Total += o.Total
	return nil
}

// nearest returns the reference with the lowest rate.
func nearest(references []string, rate func(reference string) float64) (best string) {
	lowest := 0.0
	for i, reference := range references {
		if r := rate(reference); i == 0 || r < lowest {
			best, lowest = reference, r
		}
	}
	return best
}

// words splits a text as jiwer does: only at spaces, after runs of white space have been collapsed
// into one.
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

// isSpace is Python's str.isspace, which also accepts the four information separators.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }
