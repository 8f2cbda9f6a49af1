package metrics

import (
	"cmp"
	"fmt"
	"math"
)

// BLEU is the translation score of Papineni et al. (2002) over the whole set: how many of the
// predictions' sequences of one to four words occur in their references, times a penalty for texts
// that are too short. It is a fraction from 0 to 1, as in NLTK, rather than a percentage as in
// sacrebleu. It is neither the mean of the scores of texts nor that of batches.
//
// The result has "bleu", "bleu_precision_1" and so on, "bleu_brevity_penalty" and
// "bleu_length_ratio".
type BLEU struct {
	// Tokenize splits a text into words. Nil means [Fields], at white space; sacrebleu's default
	// is [Tokenize13a].
	Tokenize func(text string) []string
	// MaxOrder is the length of the longest sequences; zero means 4.
	MaxOrder int
	// Smoothing says what to count if no sequence of a length is found. With the zero value, none,
	// the score is then 0.
	Smoothing Smoothing
	// EffectiveOrder ignores lengths that no prediction has, which suits single short sentences.
	EffectiveOrder bool

	stats bleuStats
}

type bleuStats struct {
	Matches, Totals   []int64 // by length of the sequence
	Length, Reference int64   // words of the predictions, and of the references nearest in length
}

// Smoothing is one of the methods of Chen and Cherry (2014) that keep a precision of 0 from making
// the score 0.
type Smoothing struct {
	kind  smoothing
	value float64
}

type smoothing uint8

const (
	smoothNone smoothing = iota
	smoothFloor
	smoothAddK
	smoothExp
)

// SmoothFloor counts epsilon matches if there are none: floor of sacrebleu, method1 of NLTK; both
// use 0.1.
func SmoothFloor(epsilon float64) Smoothing { return Smoothing{smoothFloor, epsilon} }

// SmoothAddK adds k to the numbers of matches and of sequences of two or more words: add-k of
// sacrebleu, method2 of NLTK; both use 1.
func SmoothAddK(k float64) Smoothing { return Smoothing{smoothAddK, k} }

// SmoothExp counts half a match the first time there are none, then a quarter, and so on: exp, the
// default of sacrebleu; method3 of NLTK.
func SmoothExp() Smoothing { return Smoothing{kind: smoothExp} }

// Name returns "bleu".
func (b *BLEU) Name() string { return "bleu" }

// Add counts one text with one reference.
func (b *BLEU) Add(prediction, reference string) { b.AddReferences(prediction, reference) }

// AddReferences counts one text that has several correct forms. No reference counts as an empty
// one: none of the words are right.
func (b *BLEU) AddReferences(prediction string, references ...string) {
	order := cmp.Or(b.MaxOrder, 4)
	b.stats.grow(order)
	tokenize := b.Tokenize
	if tokenize == nil {
		tokenize = Fields
	}
	l := lexicon{}
	words := l.numbers(tokenize(prediction))
	others := make([][]uint32, len(references))
	nearest := 0
	for i, reference := range references {
		others[i] = l.numbers(tokenize(reference))
		if n := len(others[i]); i == 0 || closer(n, nearest, len(words)) {
			nearest = n
		}
	}
	b.stats.Length += int64(len(words))
	b.stats.Reference += int64(nearest)
	for n := 1; n <= order; n++ {
		most := map[string]int64{} // for each sequence, its maximum count in a single reference
		for _, other := range others {
			for gram, count := range ngrams(other, n) {
				most[gram] = max(most[gram], count)
			}
		}
		for gram, count := range ngrams(words, n) {
			b.stats.Totals[n-1] += count
			b.stats.Matches[n-1] += min(count, most[gram])
		}
	}
}

// closer reports whether a length is nearer to that of the prediction than the best so far. Of two
// at the same distance, the shorter wins.
func closer(length, best, prediction int) bool {
	d, e := length-prediction, best-prediction
	d, e = max(d, -d), max(e, -e)
	return d < e || d == e && length < best
}

func (s *bleuStats) grow(order int) {
	for len(s.Totals) < order {
		s.Totals, s.Matches = append(s.Totals, 0), append(s.Matches, 0)
	}
}

// Result returns the score and its parts, which are all 0 if there was nothing to count.
func (b *BLEU) Result() map[string]float64 {
	order := cmp.Or(b.MaxOrder, 4)
	s := b.stats
	s.grow(order)
	result := map[string]float64{}
	precisions := make([]float64, order)
	effective, halves, matched := order, 1.0, false
	for n := range order {
		matched = matched || s.Matches[n] > 0
	}
	for n := range order {
		matches, total := float64(s.Matches[n]), float64(s.Totals[n])
		if b.Smoothing.kind == smoothAddK && n > 0 {
			matches, total = matches+b.Smoothing.value, total+b.Smoothing.value
		}
		if total == 0 {
			break // there are no longer sequences either
		}
		if b.EffectiveOrder {
			effective = n + 1
		}
		precisions[n] = b.precision(matches, total, &halves)
	}
	penalty, length := 1.0, 0.0
	if s.Reference > 0 {
		length = float64(s.Length) / float64(s.Reference)
	}
	switch {
	case s.Length == 0:
		penalty = 0
	case s.Length < s.Reference:
		penalty = math.Exp(1 - float64(s.Reference)/float64(s.Length))
	}
	logs, zero := 0.0, !matched
	for n, p := range precisions {
		result[fmt.Sprintf("bleu_precision_%d", n+1)] = p
		if n < effective {
			zero = zero || p == 0
			logs += math.Log(p)
		}
	}
	result["bleu"] = 0
	if !zero {
		result["bleu"] = penalty * math.Exp(logs/float64(effective))
	}
	result["bleu_brevity_penalty"], result["bleu_length_ratio"] = penalty, length
	return result
}

// precision returns the precision for sequences of one length; halves is the state of SmoothExp.
func (b *BLEU) precision(matches, total float64, halves *float64) float64 {
	if matches == 0 {
		switch b.Smoothing.kind {
		case smoothExp:
			*halves *= 2
			return 1 / (*halves * total)
		case smoothFloor:
			return b.Smoothing.value / total
		case smoothNone, smoothAddK:
		}
	}
	return matches / total
}

// Reset forgets all texts.
func (b *BLEU) Reset() { b.stats = bleuStats{} }

// State implements [Merger].
func (b *BLEU) State() ([]byte, error) { return pack(b.kind(), b.stats) }

// Merge implements [Merger].
func (b *BLEU) Merge(state []byte) error {
	var o bleuStats
	if err := unpack(state, b.kind(), &o); err != nil {
		return err
	}
	order := cmp.Or(b.MaxOrder, 4)
	if len(o.Totals) != len(o.Matches) || len(o.Totals) > order {
		return impossible(b.kind(), fmt.Sprintf("it counts sequences up to length %d and %d", len(o.Matches),
			len(o.Totals)))
	}
	b.stats.grow(order)
	for n := range o.Totals {
		b.stats.Totals[n] += o.Totals[n]
		b.stats.Matches[n] += o.Matches[n]
	}
	b.stats.Length += o.Length
	b.stats.Reference += o.Reference
	return nil
}

func (b *BLEU) kind() string { return fmt.Sprintf("bleu up to %d words", cmp.Or(b.MaxOrder, 4)) }
