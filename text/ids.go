package text

import (
	"context"
	"fmt"
)

// AppendIDs appends the ids of an input to dst, truncated and with special tokens, but not padded.
// They are those in the field IDs of [Tokenizer.EncodeInput], in a fraction of the time.
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
	begin, err := len(dst), error(nil)
	if tr := t.config.Truncation; tr == nil {
		dst, err = t.appendTexts(dst, in, slots, -1)
	} else if room := tr.MaxLength - special; room < 0 {
		err = noRoomError(tr, special)
	} else if !in.IsPair && tr.KeepsStart(room) {
		dst, err = t.appendTexts(dst, in, slots, room)
	} else {
		dst, err = t.appendTruncated(dst, in, slots, room)
	}
	if err != nil {
		return dst[:begin], err
	}
	return dst, nil
}

// appendTexts tokenizes each text into its slot. Unless limit is negative, it stops after limit
// tokens, since the rest would be cut off.
func (t *Tokenizer) appendTexts(dst []int64, in Input, slots []slot, limit int) ([]int64, error) {
	texts := [2]string{in.Text, in.Pair}
	var err error
	for _, s := range slots {
		if s.sequence < 0 {
			dst = append(dst, s.ids...)
		} else if dst, err = t.appendSequence(dst, texts[s.sequence], limit); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendTruncated tokenizes all texts before it truncates them, since how many tokens each keeps
// depends on the lengths of all.
func (t *Tokenizer) appendTruncated(dst []int64, in Input, slots []slot, room int) ([]int64, error) {
	var ids [2][]int64
	var err error
	for i, text := range [2]string{in.Text, in.Pair} {
		if i == 1 && !in.IsPair {
			break
		}
		if ids[i], err = t.appendSequence(make([]int64, 0, len(text)/4+4), text, -1); err != nil {
			return dst, err
		}
	}
	if ids[0], ids[1], err = t.config.Truncation.FitIDs(ids[0], ids[1], in.IsPair, room); err != nil {
		return dst, err
	}
	for _, s := range slots {
		if s.sequence < 0 {
			dst = append(dst, s.ids...)
		} else {
			dst = append(dst, ids[s.sequence]...)
		}
	}
	return dst, nil
}

func noRoomError(tr *Truncation, special int) error {
	return fmt.Errorf("truncation to %d tokens leaves no room for the %d special ones", tr.MaxLength, special)
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

// IDsBatch returns the ids of many inputs, computed in parallel: truncated and with special
// tokens, but not padded.
func (t *Tokenizer) IDsBatch(ctx context.Context, inputs []Input, o *EncodeOptions) ([][]int64, error) {
	if o == nil {
		o = &EncodeOptions{}
	}
	batch := make([][]int64, len(inputs))
	err := parallel(ctx, len(inputs), o.Goroutines, func(i int) (err error) {
		batch[i], err = t.AppendIDs(make([]int64, 0, len(inputs[i].Text)/4+len(inputs[i].Pair)/4+8), inputs[i], o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return batch, nil
}
