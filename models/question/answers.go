package question

import (
	"cmp"
	"math"
	"slices"
)

// AnswerOptions says how answers are chosen from logits. The zero value has the defaults of
// run_qa.py.
type AnswerOptions struct {
	// NoAnswers says that a text may have no answer, as in version 2 of SQuAD:
	// version_2_with_negative.
	NoAnswers bool
	Best      int // how many starts and ends are tried, and how many answers kept; zero: 20: n_best_size
	MaxLength int // the most tokens of an answer; zero: 30: max_answer_length
	// NullThreshold is the margin by which "no answer" must beat the best answer:
	// null_score_diff_threshold.
	NullThreshold float64
}

// Scores are the logits of a sample.
type Scores struct {
	Sample     Sample
	Start, End []float32 // of each token; those of padding may follow
}

// Predicted is an answer to a question, as found in a text.
type Predicted struct {
	Text        string // empty: there is no answer
	Probability float64
	Start, End  float32 // the logits
}

// candidate is a span of the text.
type candidate struct {
	from, to   int // in characters
	score      float32
	start, end float32
}

// Answers finds the best answers to one question, the chosen one first, from the logits of all
// samples of its example: postprocess_qa_predictions of run_qa.py. It returns none if the samples
// have no Example, whose text it needs. The options must be valid, as [NewTask] checks.
func Answers(scores []Scores, o AnswerOptions) []Predicted {
	o.Best, o.MaxLength = cmp.Or(o.Best, 20), cmp.Or(o.MaxLength, 30)
	var found []candidate
	var null *candidate
	for _, s := range scores {
		if n := (candidate{score: s.Start[0] + s.End[0], start: s.Start[0], end: s.End[0]}); null == nil ||
			null.score > n.score {
			null = &n
		}
		found = append(found, s.candidates(o)...)
	}
	if null == nil || scores[0].Sample.Example == nil {
		return nil
	}
	if o.NoAnswers {
		found = append(found, *null)
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	found = found[:min(len(found), o.Best)]
	if o.NoAnswers && !slices.ContainsFunc(found, func(c candidate) bool { return c.from == 0 && c.to == 0 }) {
		found = append(found, *null)
	}
	context := []rune(scores[0].Sample.Example.Context)
	answers := make([]Predicted, len(found))
	for i, c := range found {
		answers[i] = Predicted{Text: string(context[c.from:c.to]), Start: c.start, End: c.end}
	}
	if len(answers) == 0 || len(answers) == 1 && answers[0].Text == "" {
		// transformers has this text, too, if a sample has no token that could be part of an
		// answer.
		answers = append([]Predicted{{Text: "empty"}}, answers...)
		found = append([]candidate{{}}, found...)
	}
	weigh(answers, found)
	if o.NoAnswers {
		choose(answers, *null, o.NullThreshold)
	}
	return answers
}

// candidates returns the spans between the best starts and the best ends.
func (s Scores) candidates(o AnswerOptions) []candidate {
	var list []candidate
	for _, start := range best(s.Start, o.Best) {
		for _, end := range best(s.End, o.Best) {
			if max(start, end) >= len(s.Sample.Offsets) || end < start || end-start+1 > o.MaxLength ||
				!inContext(s.Sample.Offsets[start]) || !inContext(s.Sample.Offsets[end]) {
				continue
			}
			list = append(list, candidate{s.Sample.Offsets[start].Start, s.Sample.Offsets[end].End,
				s.Start[start] + s.End[end], s.Start[start], s.End[end]})
		}
	}
	return list
}

// best returns the positions of the n largest logits, largest first. Ties are in reverse order.
func best(logits []float32, n int) []int {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[a], logits[b]) })
	slices.Reverse(order)
	return order[:min(n, len(order))]
}

// weigh sets the probabilities of answers to the softmax of their scores.
func weigh(answers []Predicted, found []candidate) {
	most, sum := math.Inf(-1), 0.0
	for _, c := range found {
		most = max(most, float64(c.score))
	}
	for i, c := range found {
		answers[i].Probability = math.Exp(float64(c.score) - most)
		sum += answers[i].Probability
	}
	for i := range answers {
		answers[i].Probability /= sum
	}
}

// choose moves "no answer" to the front if it is better by more than the threshold, and otherwise
// the best answer.
func choose(answers []Predicted, null candidate, threshold float64) {
	i := slices.IndexFunc(answers, func(p Predicted) bool { return p.Text != "" })
	if i < 0 || float64(null.score-answers[i].Start-answers[i].End) > threshold {
		i = slices.IndexFunc(answers, func(p Predicted) bool { return p.Text == "" })
	}
	if i > 0 {
		chosen := answers[i]
		copy(answers[1:i+1], answers[:i])
		answers[0] = chosen
	}
}
