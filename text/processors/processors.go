package processors

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// PostProcessor puts special tokens around the texts. It must be safe to use from several
// goroutines.
type PostProcessor interface {
	// AddedTokens returns the number of special tokens it adds to one text or to a pair.
	AddedTokens(isPair bool) int
	// Process returns the parts that replace the given ones, which it may change.
	Process(parts []*encodings.Encoding, addSpecialTokens bool) ([]*encodings.Encoding, error)
}

// Process makes one encoding from one text or two (pair may be nil) with a post-processor, or
// without one if p is nil.
func Process(p PostProcessor, e, pair *encodings.Encoding, addSpecialTokens bool) (*encodings.Encoding, error) {
	parts := []*encodings.Encoding{e}
	if pair != nil {
		parts = append(parts, pair)
	}
	if p == nil {
		if pair == nil {
			return e, nil
		}
		for i, part := range parts {
			part.SetSequence(i)
		}
		return encodings.Merge(parts...), nil
	}
	for i, part := range parts {
		part.SetSequence(i)
		for _, o := range part.Overflowing {
			o.SetSequence(i)
		}
		part.SetTypeID(int64(i))
	}
	parts, err := p.Process(parts, addSpecialTokens)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return encodings.Merge(parts...), nil
}

// SpecialToken is a token and its id.
type SpecialToken struct {
	Token string
	ID    int64
}

// MarshalJSON writes ["[SEP]",102].
func (t SpecialToken) MarshalJSON() ([]byte, error) { return json.Marshal([]any{t.Token, t.ID}) }

// UnmarshalJSON reads ["[SEP]",102].
func (t *SpecialToken) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a special token is %.60s; want a token and its id", data)
	}
	if err := json.Unmarshal(pair[0], &t.Token); err != nil {
		return err
	}
	return json.Unmarshal(pair[1], &t.ID)
}

func special(t SpecialToken, typeID int64) *encodings.Encoding {
	e := encodings.New(1)
	e.AppendSpecial(t.ID, typeID, t.Token)
	return e
}

// BertProcessing makes [CLS] A [SEP] and [CLS] A [SEP] B [SEP], where B and what follows have type
// 1. Its result for each text is one part, which the next processor of a [Sequence] treats as the
// text.
type BertProcessing struct {
	Sep SpecialToken `json:"sep"`
	Cls SpecialToken `json:"cls"`
}

// AddedTokens returns 2 for a text and 3 for a pair.
func (p BertProcessing) AddedTokens(isPair bool) int {
	if isPair {
		return 3
	}
	return 2
}

// Process puts the tokens there.
func (p BertProcessing) Process(parts []*encodings.Encoding, addSpecialTokens bool) ([]*encodings.Encoding, error) {
	if !addSpecialTokens {
		return parts, nil
	}
	for i, part := range parts {
		part.SetSequence(i)
		if i == 0 {
			parts[i] = encodings.Merge(special(p.Cls, 0), part, special(p.Sep, 0))
		} else {
			parts[i] = encodings.Merge(part, special(p.Sep, 1))
		}
	}
	return parts, nil
}

// RobertaProcessing makes <s> A </s> and <s> A </s></s> B </s>, all of type 0, one part for each
// text as [BertProcessing].
type RobertaProcessing struct {
	Sep            SpecialToken `json:"sep"`
	Cls            SpecialToken `json:"cls"`
	TrimOffsets    bool         `json:"trim_offsets"`     // exclude white space from the offsets
	AddPrefixSpace bool         `json:"add_prefix_space"` // whether the pre-tokenizer puts a space before the text
}

// AddedTokens returns 2 for a text and 4 for a pair.
func (p RobertaProcessing) AddedTokens(isPair bool) int {
	if isPair {
		return 4
	}
	return 2
}

// Process puts the tokens there.
func (p RobertaProcessing) Process(parts []*encodings.Encoding, addSpecialTokens bool) ([]*encodings.Encoding, error) {
	for _, part := range parts {
		if p.TrimOffsets {
			trimAll(part, p.AddPrefixSpace)
		}
		part.SetTypeID(0)
	}
	if !addSpecialTokens {
		return parts, nil
	}
	for i, part := range parts {
		part.SetSequence(i)
		for _, o := range part.Overflowing {
			o.SetTypeID(0)
		}
		open := p.Cls
		if i > 0 {
			open = p.Sep
		}
		parts[i] = encodings.Merge(special(open, 0), part, special(p.Sep, 0))
	}
	return parts, nil
}

// ByteLevel excludes white space from the offsets of byte-level tokens. It adds no tokens.
type ByteLevel struct{ pretokenizers.ByteLevel }

// AddedTokens returns 0.
func (ByteLevel) AddedTokens(bool) int { return 0 }

// Process trims the offsets.
func (p ByteLevel) Process(parts []*encodings.Encoding, _ bool) ([]*encodings.Encoding, error) {
	for i, part := range parts {
		if p.TrimOffsets {
			trimAll(part, p.AddPrefixSpace)
		}
		part.SetSequence(i)
	}
	return parts, nil
}

func trimAll(e *encodings.Encoding, prefixed bool) {
	trim(e, prefixed)
	for _, o := range e.Overflowing {
		trim(o, prefixed)
	}
}

// trim excludes white space at the ends of tokens from their offsets. If prefixed is set, a single
// space at the start of the text is the one that the pre-tokenizer added, which is not in the
// offsets.
func trim(e *encodings.Encoding, prefixed bool) {
	table := ucd.Load()
	blank := func(r rune) bool { return r == normalizers.ByteRune(' ') || table.Of(r).Is(ucd.Space) }
	for i, token := range e.Tokens {
		leading := utf8.RuneCountInString(token) - utf8.RuneCountInString(strings.TrimLeftFunc(token, blank))
		trailing := utf8.RuneCountInString(token) - utf8.RuneCountInString(strings.TrimRightFunc(token, blank))
		e.Offsets[i] = trimSpan(e.Offsets[i], i, leading, trailing, prefixed)
		e.ByteOffsets[i] = trimSpan(e.ByteOffsets[i], i, leading, trailing, prefixed)
	}
}

func trimSpan(s encodings.Span, i, leading, trailing int, prefixed bool) encodings.Span {
	if leading > 0 {
		if first := i == 0 || s.Start == 0; first && prefixed && leading == 1 {
			leading = 0
		}
		s.Start = min(s.Start+leading, s.End)
	}
	if trailing > 0 && s.End >= trailing {
		s.End = max(s.End-trailing, s.Start)
	}
	return s
}

// Sequence applies post-processors one after the other.
type Sequence []PostProcessor

// AddedTokens returns the sum for all of them.
func (q Sequence) AddedTokens(isPair bool) int {
	n := 0
	for _, p := range q {
		n += p.AddedTokens(isPair)
	}
	return n
}

// Process applies all of them.
func (q Sequence) Process(parts []*encodings.Encoding, addSpecialTokens bool) ([]*encodings.Encoding, error) {
	var err error
	for _, p := range q {
		if parts, err = p.Process(parts, addSpecialTokens); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// MarshalJSON writes the type and the tokens.
func (p BertProcessing) MarshalJSON() ([]byte, error) {
	type fields BertProcessing
	return tagged.Marshal("BertProcessing", fields(p))
}

// MarshalJSON writes the type, the tokens and the settings.
func (p RobertaProcessing) MarshalJSON() ([]byte, error) {
	type fields RobertaProcessing
	return tagged.Marshal("RobertaProcessing", fields(p))
}

// MarshalJSON writes the type and the list.
func (q Sequence) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("Sequence", struct {
		Processors []PostProcessor `json:"processors"`
	}{append([]PostProcessor{}, q...)})
}
