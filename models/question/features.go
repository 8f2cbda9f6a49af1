package question

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text"
)

// Example is a question about a text, as in SQuAD's files.
type Example struct {
	ID, Question, Context string
	Answers               []Answer // given by people; none: the text has no answer
}

// Answer is a span of a text.
type Answer struct {
	Text  string
	Start int // in characters of the text, as Python counts them
}

// check refuses an answer that is not where the example says, which run_qa.py would learn wrongly.
func (e Example) check() error {
	for i, a := range e.Answers {
		context, length := []rune(e.Context), utf8.RuneCountInString(a.Text)
		if a.Start < 0 || a.Start > len(context)-length {
			return fmt.Errorf("question: example %q: Answers[%d] is %.80q from character %d on; the text has %d characters",
				e.ID, i, a.Text, a.Start, len(context))
		}
		if found := string(context[a.Start : a.Start+length]); found != a.Text {
			return fmt.Errorf("question: example %q: Answers[%d] is %.80q, but from character %d on the text is %.80q; Start "+
				"counts characters, not bytes", e.ID, i, a.Text, a.Start, found)
		}
	}
	return nil
}

// Sample is a question and a part of its text as token ids, special tokens included.
type Sample struct {
	inputs.Text
	Start, End int64 // the first and the last token of the answer; both [CLS] if this part has none

	Example *Example
	Offsets []text.Span // of each token in the text of the example, in characters; {-1, -1} outside of it
}

// FeatureOptions says how a long text is split.
type FeatureOptions struct {
	MaxLength int // tokens of a sample; zero: 384, or what the model takes if that is less
	// Stride is how many tokens a part shares with the one before it; zero: 128, or a fourth of
	// MaxLength if that is less.
	Stride int
}

func (o FeatureOptions) resolved(limit int) (FeatureOptions, error) {
	if o.MaxLength == 0 {
		o.MaxLength = min(384, limit)
	}
	if o.Stride == 0 {
		o.Stride = min(128, o.MaxLength/4)
	}
	if o.MaxLength < 1 || o.MaxLength > limit || o.Stride < 0 || o.Stride >= o.MaxLength {
		return o, fmt.Errorf("question: FeatureOptions has MaxLength %d and Stride %d; want a length up to %d, which "+
			"the "+
			"model takes, and a stride below it", o.MaxLength, o.Stride, limit)
	}
	return o, nil
}

// Features makes the samples of an example as run_qa.py of transformers does: question first, long
// texts split. The id cls is that of the token that stands for "no answer". If an answer is the
// last token of a part, it starts there; run_qa.py lets it start at the next token.
func Features(t *text.Tokenizer, e Example, l inputs.Limits, cls int64, o FeatureOptions) ([]Sample, error) {
	o, err := o.resolved(int(l.MaxLength))
	if err != nil {
		return nil, err
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	if t, err = t.WithPadding(nil); err == nil {
		t, err = t.WithTruncation(&text.Truncation{MaxLength: o.MaxLength, Strategy: text.OnlySecond, Stride: o.Stride})
	}
	if err != nil {
		return nil, fmt.Errorf("question: %w", err)
	}
	// Questions of SQuAD may start with many spaces, which some tokenizers would not strip.
	question := strings.TrimLeftFunc(e.Question, unicode.IsSpace)
	encoding, err := t.EncodePair(question, e.Context, nil)
	if err != nil {
		return nil, fmt.Errorf("question: example %q: %w", e.ID, err)
	}
	samples := make([]Sample, 0, 1+len(encoding.Overflowing))
	for _, part := range append([]*text.Encoding{encoding}, encoding.Overflowing...) {
		s := Sample{Text: l.Of(part), Example: &e, Offsets: slices.Clone(part.Offsets)}
		for i, sequence := range part.SequenceIDs() {
			if sequence != 1 {
				s.Offsets[i] = text.Span{Start: -1, End: -1}
			}
		}
		s.Start, s.End = s.locate(int64(max(0, slices.Index(part.IDs, cls))))
		samples = append(samples, s)
	}
	return samples, nil
}

// locate returns the tokens of the first answer. If there is no answer, both are none.
func (s *Sample) locate(none int64) (start, end int64) {
	first := slices.IndexFunc(s.Offsets, inContext)
	if first < 0 || len(s.Example.Answers) == 0 {
		return none, none
	}
	last := len(s.Offsets) - 1
	for !inContext(s.Offsets[last]) {
		last--
	}
	answer := s.Example.Answers[0]
	from, to := answer.Start, answer.Start+utf8.RuneCountInString(answer.Text)
	if s.Offsets[first].Start > from || s.Offsets[last].End < to {
		return none, none
	}
	for first < len(s.Offsets) && s.Offsets[first].Start <= from && inContext(s.Offsets[first]) {
		first++
	}
	for last >= 0 && s.Offsets[last].End >= to {
		last--
	}
	return int64(first - 1), int64(last + 1)
}

func inContext(s text.Span) bool { return s.Start >= 0 }
