package metrics

import (
	"maps"
	"slices"
	"strings"
)

// ROUGE compares summaries with references (Lin, 2004): by single words ("rouge1"), pairs of words
// ("rouge2"), the longest common subsequence ("rougeL") and that of their lines ("rougeLsum"). Each
// number is the mean over the set of the F-measures of texts; where a text has several references,
// the best one counts.
//
// On English text the scores of a text are those of rouge_score. Its aggregate is the median of
// random samples of them; this is their mean.
type ROUGE struct {
	// Tokenize splits a text into words; nil means [Words].
	Tokenize func(text string) []string
	// Stemmer reduces English words of more than three letters to their stems, by Porter's rules
	// as in NLTK.
	Stemmer bool

	state rougeState
}

// RougeScore is the score of a text by one measure.
type RougeScore struct {
	Precision, Recall, F1 float64
}

type rougeState struct {
	Sums map[string][3]sum // precision, recall, F1 of all texts
	N    int64
}

// Name returns "rougeL".
func (r *ROUGE) Name() string { return "rougeL" }

// Add counts one text with one reference.
func (r *ROUGE) Add(prediction, reference string) { r.AddReferences(prediction, reference) }

// AddReferences counts one text with several references. No reference counts as an empty one: the
// scores are 0.
func (r *ROUGE) AddReferences(prediction string, references ...string) {
	best := r.Score(prediction, references...)
	if r.state.Sums == nil {
		r.state.Sums = map[string][3]sum{}
	}
	for name, score := range best {
		sums := r.state.Sums[name]
		sums[0].add(score.Precision)
		sums[1].add(score.Recall)
		sums[2].add(score.F1)
		r.state.Sums[name] = sums
	}
	r.state.N++
}

// Score returns the scores of one text with its references, by measure, without counting them.
func (r *ROUGE) Score(prediction string, references ...string) map[string]RougeScore {
	if len(references) == 0 {
		references = []string{""}
	}
	best := map[string]RougeScore{}
	for i, reference := range references {
		for name, score := range r.compare(prediction, reference) {
			if i == 0 || score.F1 > best[name].F1 {
				best[name] = score
			}
		}
	}
	return best
}

func (r *ROUGE) compare(prediction, reference string) map[string]RougeScore {
	l := lexicon{}
	p, q := l.numbers(r.words(prediction)), l.numbers(r.words(reference))
	return map[string]RougeScore{
		"rouge1":    overlap(p, q, 1),
		"rouge2":    overlap(p, q, 2),
		"rougeL":    rougeScore(len(common(q, p)), len(p), len(q)),
		"rougeLsum": r.byLines(l, prediction, reference),
	}
}

func (r *ROUGE) words(text string) []string {
	if r.Tokenize != nil {
		return r.Tokenize(text)
	}
	words := Words(text)
	if r.Stemmer {
		for i, w := range words {
			if len(w) > 3 {
				words[i] = stem(w)
			}
		}
	}
	return words
}

func overlap(prediction, reference []uint32, n int) RougeScore {
	p, q := ngrams(prediction, n), ngrams(reference, n)
	matches := int64(0)
	for gram, count := range q {
		matches += min(count, p[gram])
	}
	return rougeScore(int(matches), max(0, len(prediction)-n+1), max(0, len(reference)-n+1))
}

func rougeScore(matches, prediction, reference int) RougeScore {
	s := RougeScore{Precision: float64(matches) / float64(max(1, prediction)),
		Recall: float64(matches) / float64(max(1, reference))}
	if s.Precision+s.Recall > 0 {
		s.F1 = 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
	}
	return s
}

// common returns the positions in a of one of its longest common subsequences with b: the one that
// rouge_score chooses.
func common(a, b []uint32) []int {
	width := len(b) + 1
	table := make([]int32, (len(a)+1)*width)
	for i := range a {
		for j := range b {
			if a[i] == b[j] {
				table[(i+1)*width+j+1] = table[i*width+j] + 1
			} else {
				table[(i+1)*width+j+1] = max(table[i*width+j+1], table[(i+1)*width+j])
			}
		}
	}
	var places []int
	for i, j := len(a), len(b); i > 0 && j > 0; {
		switch {
		case a[i-1] == b[j-1]:
			places = append(places, i-1)
			i, j = i-1, j-1
		case table[i*width+j-1] > table[(i-1)*width+j]:
			j--
		default:
			i--
		}
	}
	slices.Reverse(places)
	return places
}

// byLines computes rougeLsum: for each line of the reference it takes the union of what the line
// has in common with the lines of the prediction. No word counts more often than it occurs.
func (r *ROUGE) byLines(l lexicon, prediction, reference string) RougeScore {
	lines := func(text string) (lines [][]uint32, words int, left map[uint32]int) {
		left = map[uint32]int{}
		for line := range strings.SplitSeq(text, "\n") {
			numbers := l.numbers(r.words(line))
			lines, words = append(lines, numbers), words+len(numbers)
			for _, n := range numbers {
				left[n]++
			}
		}
		return lines, words, left
	}
	p, predicted, leftP := lines(prediction)
	q, actual, leftQ := lines(reference)
	matches := 0
	for _, line := range q {
		union := map[int]bool{}
		for _, other := range p {
			for _, place := range common(line, other) {
				union[place] = true
			}
		}
		for place := range union {
			if w := line[place]; leftP[w] > 0 && leftQ[w] > 0 {
				leftP[w], leftQ[w] = leftP[w]-1, leftQ[w]-1
				matches++
			}
		}
	}
	return rougeScore(matches, predicted, actual)
}

// Result returns the mean F-measures "rouge1", "rouge2", "rougeL" and "rougeLsum", or 0 if there
// was nothing to count.
func (r *ROUGE) Result() map[string]float64 {
	result := map[string]float64{}
	for name, score := range r.Means() {
		result[name] = score.F1
	}
	return result
}

// Means returns the means of precision, recall and F-measure.
func (r *ROUGE) Means() map[string]RougeScore {
	means := map[string]RougeScore{"rouge1": {}, "rouge2": {}, "rougeL": {}, "rougeLsum": {}}
	for name, sums := range r.state.Sums {
		n := float64(r.state.N)
		means[name] = RougeScore{sums[0].value() / n, sums[1].value() / n, sums[2].value() / n}
	}
	return means
}

// Reset forgets all texts.
func (r *ROUGE) Reset() { r.state = rougeState{} }

// State implements [Merger].
func (r *ROUGE) State() ([]byte, error) { return pack("rouge", r.state) }

// Merge implements [Merger].
func (r *ROUGE) Merge(state []byte) error {
	var o rougeState
	if err := unpack(state, "rouge", &o); err != nil {
		return err
	}
	if o.N < 0 || o.N == 0 && len(o.Sums) > 0 {
		return impossible("rouge", "scores of no texts")
	}
	if r.state.Sums == nil {
		r.state.Sums = map[string][3]sum{}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Sums)) {
		sums, others := r.state.Sums[name], o.Sums[name]
		for i := range sums {
			sums[i].merge(others[i])
		}
		r.state.Sums[name] = sums
	}
	r.state.N += o.N
	return nil
}
