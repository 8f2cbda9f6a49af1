package encodings

import "slices"

// Encoding is a tokenized text. All slices have one element per token. Tokens that come from no
// text (special tokens, padding) have the offsets {0, 0} and the word -1.
type Encoding struct {
	IDs               []int64  // of the tokens, for the model
	TypeIDs           []int64  // 0 for the first text of a pair, 1 for the second
	Tokens            []string // as they are in the vocabulary
	Words             []int    // the word of its text that each token is part of
	Offsets           []Span   // in characters of the text, as Python counts them
	ByteOffsets       []Span   // in bytes of the text
	SpecialTokensMask []int64  // 1 for tokens added by the post-processor or by padding
	AttentionMask     []int64  // 0 for padding

	// Overflowing holds the other parts of a truncated text, each padded and with special tokens
	// like this one.
	Overflowing []*Encoding

	sequences []sequence // which tokens come from which text; nil: all from the first
}

// sequence is the range of tokens that come from one text.
type sequence struct {
	id int
	Span
}

// New makes an encoding with room for n tokens.
func New(n int) *Encoding {
	numbers := make([]int64, 4*n)
	spans := make([]Span, 2*n)
	return &Encoding{
		IDs: numbers[0:0:n], TypeIDs: numbers[n : n : 2*n], SpecialTokensMask: numbers[2*n : 2*n : 3*n],
		AttentionMask: numbers[3*n : 3*n : 4*n],
		Tokens:        make([]string, 0, n), Words: make([]int, 0, n), Offsets: spans[0:0:n],
		ByteOffsets: spans[n : n : 2*n],
	}
}

// Len returns the number of tokens.
func (e *Encoding) Len() int { return len(e.IDs) }

// Append adds a token of a text.
func (e *Encoding) Append(id, typeID int64, token string, word int, chars, bytes Span) {
	e.IDs = append(e.IDs, id)
	e.TypeIDs = append(e.TypeIDs, typeID)
	e.Tokens = append(e.Tokens, token)
	e.Words = append(e.Words, word)
	e.Offsets = append(e.Offsets, chars)
	e.ByteOffsets = append(e.ByteOffsets, bytes)
	e.SpecialTokensMask = append(e.SpecialTokensMask, 0)
	e.AttentionMask = append(e.AttentionMask, 1)
}

// AppendSpecial adds a special token, which comes from no text.
func (e *Encoding) AppendSpecial(id, typeID int64, token string) {
	e.Append(id, typeID, token, -1, Span{}, Span{})
	e.SpecialTokensMask[len(e.SpecialTokensMask)-1] = 1
}

// SetTypeID sets the type of all tokens.
func (e *Encoding) SetTypeID(id int64) {
	for i := range e.TypeIDs {
		e.TypeIDs[i] = id
	}
}

// SetSequence declares that all tokens come from text id of the input, 0 or 1.
func (e *Encoding) SetSequence(id int) {
	e.sequences = append(e.sequences[:0], sequence{id, Span{0, e.Len()}})
}

// SequenceIDs returns for each token the text it comes from, 0 or 1; -1 for tokens that come from
// none.
func (e *Encoding) SequenceIDs() []int {
	ids := make([]int, e.Len())
	if e.sequences == nil {
		return ids
	}
	for i := range ids {
		ids[i] = -1
	}
	for _, s := range e.sequences {
		for i := s.Start; i < s.End; i++ {
			ids[i] = s.id
		}
	}
	return ids
}

// sequenceRange returns the range of the tokens of one text.
func (e *Encoding) sequenceRange(id int) Span {
	for _, s := range e.sequences {
		if s.id == id {
			return s.Span
		}
	}
	return Span{0, e.Len()}
}

// CharToToken returns the index of the token that contains a character of a text; false if none
// does, as for a space.
func (e *Encoding) CharToToken(char, sequence int) (int, bool) {
	r := e.sequenceRange(sequence)
	for i := r.Start; i < r.End; i++ {
		if e.Offsets[i].Start <= char && char < e.Offsets[i].End {
			return i, true
		}
	}
	return 0, false
}

// WordToTokens returns the range of tokens of one word of a text.
func (e *Encoding) WordToTokens(word, sequence int) (Span, bool) {
	r := e.sequenceRange(sequence)
	first := slices.Index(e.Words[r.Start:r.End], word)
	if word < 0 || first < 0 {
		return Span{}, false
	}
	found := Span{r.Start + first, r.Start + first}
	for found.End < r.End && e.Words[found.End] == word {
		found.End++
	}
	return found, true
}

// slice copies the tokens from start to end. As in the reference, it does not copy which text they
// come from; a post-processor sets it again.
func (e *Encoding) slice(start, end int) *Encoding {
	s := New(end - start)
	s.IDs = append(s.IDs, e.IDs[start:end]...)
	s.TypeIDs = append(s.TypeIDs, e.TypeIDs[start:end]...)
	s.Tokens = append(s.Tokens, e.Tokens[start:end]...)
	s.Words = append(s.Words, e.Words[start:end]...)
	s.Offsets = append(s.Offsets, e.Offsets[start:end]...)
	s.ByteOffsets = append(s.ByteOffsets, e.ByteOffsets[start:end]...)
	s.SpecialTokensMask = append(s.SpecialTokensMask, e.SpecialTokensMask[start:end]...)
	s.AttentionMask = append(s.AttentionMask, e.AttentionMask[start:end]...)
	return s
}

// Clone copies the encoding without its overflowing parts.
func (e *Encoding) Clone() *Encoding {
	c := e.slice(0, e.Len())
	c.sequences = slices.Clone(e.sequences)
	return c
}

// Merge concatenates encodings. Each overflowing part is combined with all parts of the others, in
// the order of the reference.
func Merge(parts ...*Encoding) *Encoding {
	total := 0
	for _, p := range parts {
		total += p.Len()
	}
	out := New(total)
	for _, p := range parts {
		out.merge(p)
	}
	return out
}

func (e *Encoding) merge(p *Encoding) {
	var overflowing []*Encoding
	for _, o := range e.Overflowing {
		overflowing = append(overflowing, Merge(o.alone(), p.alone()))
		for _, q := range p.Overflowing {
			overflowing = append(overflowing, Merge(o.alone(), q.alone()))
		}
	}
	for _, q := range p.Overflowing {
		overflowing = append(overflowing, Merge(e.alone(), q.alone()))
	}
	n := e.Len()
	for _, s := range p.sequences {
		e.sequences = append(e.sequences, sequence{s.id, Span{n + s.Start, n + s.End}})
	}
	e.IDs = append(e.IDs, p.IDs...)
	e.TypeIDs = append(e.TypeIDs, p.TypeIDs...)
	e.Tokens = append(e.Tokens, p.Tokens...)
	e.Words = append(e.Words, p.Words...)
	e.Offsets = append(e.Offsets, p.Offsets...)
	e.ByteOffsets = append(e.ByteOffsets, p.ByteOffsets...)
	e.SpecialTokensMask = append(e.SpecialTokensMask, p.SpecialTokensMask...)
	e.AttentionMask = append(e.AttentionMask, p.AttentionMask...)
	e.Overflowing = overflowing
}

// alone returns the encoding without its overflowing parts.
func (e *Encoding) alone() *Encoding {
	c := *e
	c.Overflowing = nil
	return &c
}
