package encodings

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// Direction is a side of a text.
type Direction int

// The two sides. The zero value is the end of the text, where truncation and padding apply by
// default.
const (
	Right Direction = iota
	Left
)

var directionNames = []string{"Right", "Left"}

// Strategy says which text of a pair loses tokens.
type Strategy int

// The strategies.
const (
	LongestFirst Strategy = iota // the longer one, until both have half of the tokens; the default
	OnlyFirst
	OnlySecond
)

var strategyNames = []string{"LongestFirst", "OnlyFirst", "OnlySecond"}

// Errors of truncation.
var (
	// ErrNoSecondSequence means that the strategy is OnlySecond but there is no second text.
	ErrNoSecondSequence = errors.New("truncation of the second text only, but there is no second text")
	// ErrSequenceTooShort means that the text to truncate has fewer tokens than must be removed.
	ErrSequenceTooShort = errors.New("the text to truncate is too short to make the whole fit")
	// ErrStride means that consecutive parts would overlap by their whole length or more.
	ErrStride = errors.New("the stride must be smaller than what truncation leaves of a text")
)

// Truncation limits the number of tokens.
type Truncation struct {
	MaxLength int       `json:"max_length"` // of the result, special tokens included
	Strategy  Strategy  `json:"strategy"`   // which text of a pair is cut
	Stride    int       `json:"stride"`     // tokens that an overflowing part shares with the one before it
	Direction Direction `json:"direction"`  // the side that is cut off
}

// UnmarshalJSON reads the field "truncation" of tokenizer.json. Only the direction may be missing.
func (t *Truncation) UnmarshalJSON(raw []byte) error {
	type fields Truncation
	f, err := tagged.Decode[fields](raw, "max_length", "strategy", "stride")
	if err != nil {
		return fmt.Errorf("truncation: %w", err)
	}
	*t = Truncation(f)
	return nil
}

// Fit truncates one text (if pair is nil) or two to maxLength tokens in total. What is cut off
// becomes their overflowing parts.
func (t *Truncation) Fit(e, pair *Encoding, maxLength int) error {
	if maxLength <= 0 {
		if err := e.truncate(0, t); err != nil || pair == nil {
			return err
		}
		return pair.truncate(0, t)
	}
	first, second := e.Len(), 0
	if pair != nil {
		second = pair.Len()
	}
	first, second, err := t.lengths(first, second, pair != nil, maxLength)
	if err != nil {
		return err
	}
	if err := e.truncate(first, t); err != nil || pair == nil {
		return err
	}
	return pair.truncate(second, t)
}

// FitIDs is Fit for ids only: what is cut off is dropped.
func (t *Truncation) FitIDs(ids, pair []int64, isPair bool, maxLength int) ([]int64, []int64, error) {
	if maxLength <= 0 {
		return nil, nil, nil
	}
	first, second, err := t.lengths(len(ids), len(pair), isPair, maxLength)
	if err != nil {
		return nil, nil, err
	}
	if ids, err = t.cut(ids, first); err != nil {
		return nil, nil, err
	}
	pair, err = t.cut(pair, second)
	return ids, pair, err
}

// cut keeps n of the ids.
func (t *Truncation) cut(ids []int64, n int) ([]int64, error) {
	switch {
	case n >= len(ids):
		return ids, nil
	case n > 0 && t.Stride >= n:
		return nil, t.strideError(n)
	case t.Direction == Left:
		return ids[len(ids)-n:], nil
	}
	return ids[:n], nil
}

// strideError is the error for a stride that is not smaller than the n tokens that truncation
// leaves of a text.
func (t *Truncation) strideError(n int) error {
	return fmt.Errorf("%w: stride %d, %d tokens left besides the special ones", ErrStride, t.Stride, n)
}

// KeepsStart reports whether truncation of a single text keeps its first maxLength tokens,
// regardless of what follows them.
func (t *Truncation) KeepsStart(maxLength int) bool {
	return t.Direction == Right && t.Strategy != OnlySecond && t.Stride < max(maxLength, 1)
}

// lengths returns how many tokens the texts, which have first and second, keep so that both fit
// into maxLength, which must be positive.
func (t *Truncation) lengths(first, second int, isPair bool, maxLength int) (int, int, error) {
	remove := first + second - maxLength
	if remove <= 0 {
		return first, second, nil
	}
	switch {
	case t.Strategy == LongestFirst && !isPair:
		return maxLength, 0, nil
	case t.Strategy == LongestFirst:
		short := min(first, second)
		long := short
		if short <= maxLength {
			long = max(short, maxLength-short)
		}
		if short+long > maxLength {
			short = maxLength / 2
			long = short + maxLength%2
		}
		if first > second {
			return long, short, nil
		}
		return short, long, nil
	case t.Strategy == OnlyFirst && first > remove:
		return first - remove, second, nil
	case t.Strategy == OnlySecond && !isPair:
		return 0, 0, ErrNoSecondSequence
	case t.Strategy == OnlySecond && second > remove:
		return first, second - remove, nil
	}
	return 0, 0, fmt.Errorf("%w: %d and %d tokens into %d", ErrSequenceTooShort, first, second, maxLength)
}

// truncate keeps n tokens and splits the rest into overflowing parts that overlap by the stride.
func (e *Encoding) truncate(n int, t *Truncation) error {
	total := e.Len()
	switch {
	case n >= total:
		return nil
	case n == 0:
		whole := *e
		*e = *New(0)
		e.Overflowing = append(whole.Overflowing, whole.alone())
		return nil
	case t.Stride >= n:
		return t.strideError(n)
	}
	var parts []Span
	step := n - t.Stride
	if t.Direction == Right {
		for start := 0; start < total; start += step {
			parts = append(parts, Span{start, min(start+n, total)})
			if start+n >= total {
				break
			}
		}
	} else {
		for stop := total; stop > 0; stop -= step {
			parts = append(parts, Span{max(0, stop-n), stop})
			if stop-n <= 0 {
				break
			}
		}
	}
	whole := *e
	*e = *whole.slice(parts[0].Start, parts[0].End)
	for _, p := range parts[1:] {
		e.Overflowing = append(e.Overflowing, whole.slice(p.Start, p.End))
	}
	return nil
}

func nameOf(names []string, i int, what string) (string, error) {
	if i < 0 || i >= len(names) {
		return "", fmt.Errorf("%s %d; want 0 to %d", what, i, len(names)-1)
	}
	return names[i], nil
}

func parseName(data []byte, names []string, what string) (int, error) {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return 0, err
	}
	i := slices.Index(names, name)
	if i < 0 {
		return 0, fmt.Errorf("unknown %s %q; want one of %q", what, name, names)
	}
	return i, nil
}

// MarshalJSON writes the name of tokenizer.json.
func (d Direction) MarshalJSON() ([]byte, error) {
	name, err := nameOf(directionNames, int(d), "direction")
	if err != nil {
		return nil, err
	}
	return json.Marshal(name)
}

// UnmarshalJSON reads the name of tokenizer.json.
func (d *Direction) UnmarshalJSON(data []byte) error {
	i, err := parseName(data, directionNames, "direction")
	*d = Direction(i)
	return err
}

// MarshalJSON writes the name of tokenizer.json.
func (s Strategy) MarshalJSON() ([]byte, error) {
	name, err := nameOf(strategyNames, int(s), "truncation strategy")
	if err != nil {
		return nil, err
	}
	return json.Marshal(name)
}

// UnmarshalJSON reads the name of tokenizer.json.
func (s *Strategy) UnmarshalJSON(data []byte) error {
	i, err := parseName(data, strategyNames, "truncation strategy")
	*s = Strategy(i)
	return err
}
