package encodings

import (
	"encoding/json"
	"fmt"
	"slices"
)

// MaxPadding is the largest length to which padding fills up; a larger one is taken as a damaged
// file.
const MaxPadding = 1 << 20

// Padding pads encodings to the same length. Its zero value pads on the right, to the longest of a
// batch, with id 0.
type Padding struct {
	Length     int       // 0: the longest of the batch
	MultipleOf int       // the length is rounded up to a multiple of this; 0: it is not
	Direction  Direction // the side that is filled
	ID         int64     // of the padding token
	TypeID     int64     // of the padding token
	Token      string    // the padding token; empty means [PAD]
}

// Check returns an error if a length is negative or too large.
func (p *Padding) Check() error {
	if p.Length < 0 || p.Length > MaxPadding || p.MultipleOf < 0 || p.MultipleOf > MaxPadding {
		return fmt.Errorf("padding to length %d, a multiple of %d; want numbers from 0 to %d", p.Length, p.MultipleOf,
			MaxPadding)
	}
	return nil
}

// Pad pads the encodings and their overflowing parts to the same length. None is shortened.
func (p *Padding) Pad(batch []*Encoding) {
	n := p.Target(slices.Values(lengths(batch)))
	for _, e := range batch {
		p.pad(e, n)
	}
}

func lengths(batch []*Encoding) []int {
	n := make([]int, len(batch))
	for i, e := range batch {
		n[i] = e.Len()
	}
	return n
}

// Target returns the length that a batch of encodings of these lengths is padded to.
func (p *Padding) Target(lengths func(func(int) bool)) int {
	n := p.Length
	if n == 0 {
		for l := range lengths {
			n = max(n, l)
		}
	}
	if m := p.MultipleOf; m > 0 && n%m > 0 {
		n += m - n%m
	}
	return n
}

func (p *Padding) pad(e *Encoding, n int) {
	for _, o := range e.Overflowing {
		p.pad(o, n)
	}
	missing := n - e.Len()
	if missing <= 0 {
		return
	}
	token := p.Token
	if token == "" {
		token = "[PAD]"
	}
	fill := New(missing)
	for range missing {
		fill.AppendSpecial(p.ID, p.TypeID, token)
		fill.AttentionMask[len(fill.AttentionMask)-1] = 0
	}
	overflowing, sequences := e.Overflowing, e.sequences
	shift := 0
	if p.Direction == Left {
		shift = missing
		*e = *Merge(fill, e.alone())
	} else {
		*e = *Merge(e.alone(), fill)
	}
	e.Overflowing, e.sequences = overflowing, slices.Clone(sequences)
	for i := range e.sequences {
		e.sequences[i].Start += shift
		e.sequences[i].End += shift
	}
}

// paddingJSON is the field "padding" of tokenizer.json.
type paddingJSON struct {
	Strategy   json.RawMessage `json:"strategy"`
	Direction  Direction       `json:"direction"`
	MultipleOf *int            `json:"pad_to_multiple_of"`
	ID         int64           `json:"pad_id"`
	TypeID     int64           `json:"pad_type_id"`
	Token      string          `json:"pad_token"`
}

// MarshalJSON writes the field "padding" of tokenizer.json.
func (p Padding) MarshalJSON() ([]byte, error) {
	out := paddingJSON{Strategy: json.RawMessage(`"BatchLongest"`), Direction: p.Direction, ID: p.ID, TypeID: p.TypeID,
		Token: p.Token}
	if p.Length > 0 {
		out.Strategy = fmt.Appendf(nil, `{"Fixed":%d}`, p.Length)
	}
	if p.MultipleOf > 0 {
		out.MultipleOf = &p.MultipleOf
	}
	if out.Token == "" {
		out.Token = "[PAD]"
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the field "padding" of tokenizer.json.
func (p *Padding) UnmarshalJSON(data []byte) error {
	var in paddingJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*p = Padding{Direction: in.Direction, ID: in.ID, TypeID: in.TypeID, Token: in.Token}
	if in.MultipleOf != nil {
		p.MultipleOf = *in.MultipleOf
	}
	if string(in.Strategy) != `"BatchLongest"` {
		var fixed struct{ Fixed *int }
		if err := json.Unmarshal(in.Strategy, &fixed); err != nil || fixed.Fixed == nil {
			return fmt.Errorf("unknown padding strategy %.60s; want \"BatchLongest\" or {\"Fixed\": n}", in.Strategy)
		}
		p.Length = *fixed.Fixed
	}
	return p.Check()
}
