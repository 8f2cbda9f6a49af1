package datasets

import (
	"fmt"
	"math"
	"slices"
)

// PadOptions are the arguments of hezar.utils.pad_batch_items. The zero value pads to the longest,
// on the right, with 0.
type PadOptions struct {
	Padding      string // longest or max_length; empty: max_length if there is one, else longest
	Left         bool
	PadID        int64
	MaxLength    int  // zero: none
	ZeroLength   bool // MaxLength is 0, and not none: rows are cut to nothing
	NoTruncation bool // has an effect with max_length only, as in Hezar
}

// PadBatch is hezar.utils.pad_batch_items: it pads lists to one length, or cuts them off at it,
// with whatever stands at the end.
func PadBatch(inputs [][]int64, o PadOptions) ([][]int64, error) {
	longest := 0
	for _, ids := range inputs {
		longest = max(longest, len(ids))
	}
	padding, length, limited := o.Padding, longest, o.MaxLength != 0 || o.ZeroLength
	if padding == "" {
		padding = "longest"
		if limited {
			padding = "max_length"
		}
	}
	switch padding {
	case "longest":
		if limited {
			length = min(longest, o.MaxLength)
		}
	case "max_length":
		if limited && (o.MaxLength >= longest || !o.NoTruncation) {
			length = o.MaxLength
		}
	default:
		return nil, fmt.Errorf("datasets: padding %q; want max_length or longest", padding)
	}
	if o.MaxLength < 0 {
		return nil, fmt.Errorf("datasets: a length of %d; want a positive number, or 0 for none", o.MaxLength)
	}
	out := make([][]int64, len(inputs))
	for i, ids := range inputs {
		switch fill := slices.Repeat([]int64{o.PadID}, max(0, length-len(ids))); {
		case len(ids) > length:
			out[i] = slices.Clone(ids[:length])
		case o.Left:
			out[i] = slices.Concat(fill, ids)
		default:
			out[i] = slices.Concat(ids, fill)
		}
	}
	return out, nil
}

// IgnoreIndex is the label of positions that the loss passes over.
const IgnoreIndex = -100

// ShiftTokensRight makes the input of a decoder from its labels: each row moves by one, begins with
// start, and has pad where labels are ignored.
func ShiftTokensRight(rows [][]int64, pad, start int64) [][]int64 {
	out := make([][]int64, len(rows))
	for i, row := range rows {
		out[i] = make([]int64, len(row))
		for j := range row {
			id := start
			if j > 0 {
				id = row[j-1]
			}
			if id == IgnoreIndex {
				id = pad
			}
			out[i][j] = id
		}
	}
	return out
}

// limit is max_size.
func limit(n, most int, fraction float64) (int, error) {
	switch {
	case most < 0 || !(fraction >= 0 && fraction <= 1) || most > 0 && fraction > 0:
		return 0, fmt.Errorf("datasets: MaxSamples is %d and MaxFraction %g; want one of them, a number of samples "+
			"or a share of at most 1", most, fraction)
	case fraction > 0:
		return int(math.Ceil(fraction * float64(n))), nil
	case most > 0:
		return min(n, most), nil
	}
	return n, nil
}
