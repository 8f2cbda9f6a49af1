package text

import (
	"context"
	"fmt"
	"slices"
)

// AppendIDs appends the ids of an input to dst, truncated and with special tokens, but not padded:
// what [Tokenizer.EncodeInput] has in its field IDs, in a fraction of the time.
func (t *Tokenizer) AppendIDs(dst []int64, in Input, o *EncodeOptions) ([]int64, error) {
	if o == nil {
		o = &EncodeOptions{}
	}
	if t.layout == nil || t.bert == nil || in.Words != nil || in.PairWords != nil {
		e, err := t.encode(in, o)
		if err != nil {
			return dst, err
		}
		return append(dst, e.IDs...), nil
	}
	slots, special := t.layout.of(in.IsPair), 0
	if o.NoSpecialTokens {
		slots = withoutSpecial(slots)
	} else {
		special = t.specialTokens(in.IsPair)
	}
	limit, early := -1, -1
	tr := t.config.Truncation
	if tr != nil {
		if limit = tr.MaxLength - special; limit < 0 {
			return dst, fmt.Errorf("truncation to %d tokens leaves no room for the %d special ones", tr.MaxLength,
				special)
		}
		if !in.IsPair && tr.Direction == Right && tr.Strategy != OnlySecond && tr.Stride < max(limit, 1) {
			early = limit // what comes behind does not matter
		}
	}
	begin := len(dst)
	if len(slots) > 0 && slots[0].sequence < 0 { // so the common [CLS] needs no move
		dst = append(dst, slots[0].ids...)
		slots = slots[1:]
	}
	first := len(dst)
	dst, err := t.appendSequence(dst, in.Text, early)
	if err != nil {
		return dst[:begin], err
	}
	if !in.IsPair && len(slots) > 0 && slots[0].sequence == 0 && !slices.ContainsFunc(slots[1:],
		func(s slot) bool { return s.sequence >= 0 }) && (tr == nil || early >= 0) {
		for _, s := range slots[1:] {
			dst = append(dst, s.ids...)
		}
		return dst, nil
	}
	middle := len(dst)
	if in.IsPair {
		if dst, err = t.appendSequence(dst, in.Pair, -1); err != nil {
			return dst[:begin], err
		}
	}
	// The texts stand behind one another; put them and the special tokens in order.
	texts := [2][]int64{slices.Clone(dst[first:middle]), slices.Clone(dst[middle:])}
	if tr != nil && limit == 0 {
		texts = [2][]int64{}
	} else if tr != nil {
		a, b, err := tr.Lengths(len(texts[0]), len(texts[1]), in.IsPair, limit)
		if err != nil {
			return dst[:begin], err
		}
		for i, n := range []int{a, b} {
			if n >= len(texts[i]) {
				continue
			}
			if tr.Stride >= n && n > 0 {
				return dst[:begin], tr.StrideError(n)
			}
			if tr.Direction == Left {
				texts[i] = texts[i][len(texts[i])-n:]
			} else {
				texts[i] = texts[i][:n]
			}
		}
	}
	dst = dst[:first]
	for _, s := range slots {
		if s.sequence < 0 {
			dst = append(dst, s.ids...)
		} else {
			dst = append(dst, texts[s.sequence]...)
		}
	}
	return dst, nil
}

func withoutSpecial(slots []slot) []slot {
	var out []slot
	for _, s := range slots {
		if s.sequence >= 0 {
			out = append(out, s)
		}
	}
	return out
}

func (t *Tokenizer) appendSequence(dst []int64, text string, limit int) ([]int64, error) {
	dst, ok, err := t.bert.appendIDs(dst, t.added, text, limit)
	if ok || err != nil {
		return dst, err
	}
	e, err := t.tokenizeAny(text, 0, -1)
	if err != nil {
		return dst, err
	}
	if limit >= 0 && e.Len() > limit {
		return append(dst, e.IDs[:limit]...), nil
	}
	return append(dst, e.IDs...), nil
}

// IDsBatch returns the ids of many inputs at once, shared out among goroutines: truncated and with
// special tokens, but not padded.
func (t *Tokenizer) IDsBatch(ctx context.Context, inputs []Input, o *EncodeOptions) ([][]int64, error) {
	if o == nil {
		o = &EncodeOptions{}
	}
	batch := make([][]int64, len(inputs))
	err := share(ctx, len(inputs), o.Goroutines, func(i int) (err error) {
		batch[i], err = t.AppendIDs(make([]int64, 0, len(inputs[i].Text)/4+len(inputs[i].Pair)/4+8), inputs[i], o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return batch, nil
}
