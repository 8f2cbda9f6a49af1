package metrics

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Squad scores answers to questions about texts as SQuAD does: exact match and F1 of words, in
// lower case and without punctuation and articles, in percent, for the best of several correct
// answers. The zero value is version 1.1, where each question has an answer: metric squad of
// evaluate. With NoAnswers it is version 2: metric squad_v2.
//
//	var squad metrics.Squad
//	squad.Add(metrics.SquadAnswer{Text: "Denver Broncos"}, []string{"The Denver Broncos", "Denver"})
type Squad struct {
	NoAnswers bool // there are questions without an answer, whose references are empty

	answers []squadScore
}

// SquadAnswer is the prediction for a question.
type SquadAnswer struct {
	Text string // empty means no answer
	// NoAnswer is the probability that there is no answer; with NoAnswers, the best threshold for
	// it is searched for. A probability above 1 never counts as one.
	NoAnswer float64
}

type squadScore struct {
	Exact, F1         float64
	HasAnswer, Silent bool // there is an answer; none was predicted
	NoAnswer          float64
}

// Name returns "f1".
func (s *Squad) Name() string { return "f1" }

// Add scores an answer against the right ones.
func (s *Squad) Add(prediction SquadAnswer, references []string) {
	score := squadScore{HasAnswer: len(references) > 0, Silent: prediction.Text == "", NoAnswer: prediction.NoAnswer}
	words := squadWords(prediction.Text)
	right := make([][]string, 0, len(references))
	for _, r := range references {
		if w := squadWords(r); len(w) > 0 || !s.NoAnswers {
			right = append(right, w)
		}
	}
	if len(right) == 0 && s.NoAnswers {
		right = [][]string{nil}
	}
	for _, r := range right {
		if slices.Equal(words, r) {
			score.Exact = 1
		}
		score.F1 = max(score.F1, s.f1(words, r))
	}
	s.answers = append(s.answers, score)
}

// f1 returns the F1 of two lists of words. Two empty lists are equal in version 2.
func (s *Squad) f1(prediction, reference []string) float64 {
	if len(prediction) == 0 || len(reference) == 0 {
		if s.NoAnswers && len(prediction) == len(reference) {
			return 1
		}
		return 0
	}
	left := map[string]int{}
	for _, w := range reference {
		left[w]++
	}
	same := 0
	for _, w := range prediction {
		if left[w] > 0 {
			left[w]--
			same++
		}
	}
	if same == 0 {
		return 0
	}
	precision, recall := float64(same)/float64(len(prediction)), float64(same)/float64(len(reference))
	return 2 * precision * recall / (precision + recall)
}

// Result returns "exact_match" and "f1". With NoAnswers it returns "exact", "f1" and "total", the
// same for the questions with an answer (HasAns_) and without one (NoAns_), and the results for
// the best threshold of NoAnswer: best_exact, best_exact_thresh, best_f1, best_f1_thresh. Without
// questions the numbers are 0.
func (s *Squad) Result() map[string]float64 {
	every := func(squadScore) bool { return true }
	if !s.NoAnswers {
		exact, f1, _ := s.mean(every)
		return map[string]float64{"exact_match": exact, "f1": f1}
	}
	result := map[string]float64{}
	for prefix, of := range map[string]func(squadScore) bool{
		"": every, "HasAns_": func(a squadScore) bool { return a.HasAnswer },
		"NoAns_": func(a squadScore) bool { return !a.HasAnswer },
	} {
		if exact, f1, total := s.mean(of); total > 0 || prefix == "" {
			result[prefix+"exact"], result[prefix+"f1"], result[prefix+"total"] = exact, f1, total
		}
	}
	result["best_exact"], result["best_exact_thresh"] = s.best(func(a squadScore) float64 { return a.Exact })
	result["best_f1"], result["best_f1_thresh"] = s.best(func(a squadScore) float64 { return a.F1 })
	return result
}

// mean returns the mean scores in percent. A question whose NoAnswer is above 1 counts as not
// answered.
func (s *Squad) mean(of func(squadScore) bool) (exact, f1, total float64) {
	for _, a := range s.answers {
		if !of(a) {
			continue
		}
		total++
		if s.NoAnswers && a.NoAnswer > 1 {
			if !a.HasAnswer {
				exact++
				f1++
			}
			continue
		}
		exact += a.Exact
		f1 += a.F1
	}
	if total == 0 {
		return 0, 0, 0
	}
	return 100 * exact / total, 100 * f1 / total, total
}

// best returns the highest score in percent that a threshold gives if questions whose NoAnswer is
// above it count as not answered, and that threshold.
func (s *Squad) best(score func(squadScore) float64) (percent, threshold float64) {
	sorted := slices.Clone(s.answers)
	slices.SortStableFunc(sorted, func(a, b squadScore) int { return cmp.Compare(a.NoAnswer, b.NoAnswer) })
	now := 0.0
	for _, a := range sorted {
		if !a.HasAnswer {
			now++
		}
	}
	most := now
	for _, a := range sorted {
		switch {
		case a.HasAnswer:
			now += score(a)
		case !a.Silent:
			now--
		}
		if now > most {
			most, threshold = now, a.NoAnswer
		}
	}
	if len(sorted) == 0 {
		return 0, 0
	}
	return 100 * most / float64(len(sorted)), threshold
}

// Reset forgets all answers.
func (s *Squad) Reset() { s.answers = nil }

func (s *Squad) kind() string {
	if s.NoAnswers {
		return "squad_v2"
	}
	return "squad"
}

// State implements [Merger].
func (s *Squad) State() ([]byte, error) { return pack(s.kind(), s.answers) }

// Merge implements [Merger].
func (s *Squad) Merge(state []byte) error {
	var more []squadScore
	if err := unpack(state, s.kind(), &more); err != nil {
		return err
	}
	for _, a := range more {
		if !(a.Exact >= 0 && a.Exact <= 1 && a.F1 >= 0 && a.F1 <= 1) {
			return impossible(s.kind(), "a score is not between 0 and 1")
		}
	}
	s.answers = append(s.answers, more...)
	return nil
}

// squadWords returns the words of an answer that count: in lower case, without ASCII punctuation
// and articles.
func squadWords(answer string) []string {
	var b, word strings.Builder
	end := func() { // ends a run of letters, digits and underscores
		if w := word.String(); w != "a" && w != "an" && w != "the" {
			b.WriteString(w)
		} else {
			b.WriteByte(' ')
		}
		word.Reset()
	}
	for _, r := range lower(answer) {
		switch {
		case r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)): // string.punctuation
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			word.WriteRune(r)
		default:
			end()
			b.WriteRune(r)
		}
	}
	end()
	return Fields(b.String())
}

// lower is Python's str.lower, which has a special form for a Greek sigma at the end of a word and
// keeps the dot of a Turkish capital I.
func lower(s string) string {
	runes := []rune(s)
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == 'Σ' && i > 0 && unicode.IsLetter(runes[i-1]) && (i+1 == len(runes) || !unicode.IsLetter(runes[i+1])):
			b.WriteRune('ς')
		case r == 'İ':
			b.WriteString("i̇")
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}
