package datasets

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
)

// PadOptions are the arguments of hezar.utils.pad_batch_items. The zero value pads with 0 on the
// right, to the longest row.
type PadOptions struct {
	Padding      string // longest or max_length; empty: max_length if it is set, else longest
	Left         bool
	PadID        int64
	MaxLength    int  // zero: none
	ZeroLength   bool // MaxLength of 0 means that rows are truncated to nothing
	NoTruncation bool // only has an effect with max_length, as in Hezar
}

// PadBatch is hezar.utils.pad_batch_items: it pads lists to one length, or truncates them,
// including any final token.
func PadBatch(inputs [][]int64, o PadOptions) ([][]int64, error) {
	longest := 0
	for _, ids := range inputs {
		longest = max(longest, len(ids))
	}
	length, limited := longest, o.MaxLength != 0 || o.ZeroLength
	switch {
	case o.Padding != "" && o.Padding != "longest" && o.Padding != "max_length":
		return nil, fmt.Errorf("datasets: padding %q; want max_length or longest", o.Padding)
	case !limited:
	case o.Padding == "longest":
		length = min(longest, o.MaxLength)
	case o.MaxLength >= longest || !o.NoTruncation:
		length = o.MaxLength
	}
	if o.MaxLength < 0 {
		return nil, fmt.Errorf("datasets: a length of %d; want a positive number, or 0 for none", o.MaxLength)
	}
	rows := make([][]int64, len(inputs))
	for i, ids := range inputs {
		rows[i] = ids[:min(len(ids), length)]
	}
	padded, err := data.Pad(rows, o.PadID, data.Padding{Length: length, Left: o.Left})
	for i := range rows {
		rows[i] = padded.Row(i)
	}
	return rows, err
}

// IgnoreIndex is the label of positions that the loss ignores.
const IgnoreIndex = -100

// ShiftTokensRight makes the input of a decoder from its labels: each row is shifted right by one,
// starts with start, and has pad where labels are ignored.
func ShiftTokensRight(rows [][]int64, pad, start int64) [][]int64 {
	out := make([][]int64, len(rows))
	for i, row := range rows {
		if len(row) > 0 {
			out[i] = append([]int64{start}, row[:len(row)-1]...)
		}
		for j, id := range out[i] {
			if id == IgnoreIndex {
				out[i][j] = pad
			}
		}
	}
	return out
}
