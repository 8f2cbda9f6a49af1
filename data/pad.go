package data

import (
	"fmt"
	"slices"
)

// Padding says how wide a batch of sequences becomes. The zero value pads on the right to the
// longest sequence of the batch. This is dynamic padding, the padding=True of Hugging Face's
// DataCollatorWithPadding.
type Padding struct {
	// Length is the width of every batch (padding="max_length"); zero means that of the longest
	// sequence in the batch. A longer sequence is an error: truncate it when tokenizing, where it
	// is known what must not be cut off.
	Length int

	// Multiple rounds the width up to a multiple of this number (pad_to_multiple_of), since tensor
	// cores work best with multiples of 8; zero means no rounding.
	Multiple int

	// Left puts the padding before the sequences (padding_side="left"), as decoders that generate
	// text require.
	Left bool
}

// width returns the width of a batch of sequences of these lengths.
func (p Padding) width(lengths []int) (int, error) {
	if p.Length < 0 || p.Multiple < 0 {
		return 0, fmt.Errorf("data: Padding has the length %d and the multiple %d; neither can be negative", p.Length,
			p.Multiple)
	}
	longest := 0
	for _, n := range lengths {
		longest = max(longest, n)
	}
	width := longest
	if p.Length > 0 {
		width = p.Length
	}
	if m := p.Multiple; m > 1 {
		width = (width + m - 1) / m * m
	}
	if longest > width {
		i := slices.Index(lengths, longest)
		return 0, fmt.Errorf("data: sequence %d of the batch has %d items, more than the %d that Padding.Length "+
			"allows; truncate it where it is tokenized", i, longest, width)
	}
	return width, nil
}

// Padded is a batch of sequences of different lengths as one matrix. Values is in the form that
// torch.From takes:
//
//	ids := torch.From(batch.InputIDs.Values, batch.InputIDs.Shape()...)
type Padded[T any] struct {
	Values      []T // row by row: Rows times Width
	Rows, Width int
	Lengths     []int // of the sequences, without padding
	Left        bool  // the padding comes before the sequences
}

// Shape returns [Rows, Width].
func (p Padded[T]) Shape() []int64 { return []int64{int64(p.Rows), int64(p.Width)} }

// Row returns row i with its padding. It shares memory with Values.
func (p Padded[T]) Row(i int) []T { return p.Values[i*p.Width : (i+1)*p.Width : (i+1)*p.Width] }

// Sequence returns row i without its padding. It shares memory with Values.
func (p Padded[T]) Sequence(i int) []T {
	row, n := p.Row(i), p.Lengths[i]
	if p.Left {
		return row[len(row)-n:]
	}
	return row[:n:n]
}

// Mask returns the attention mask: 1 for items of a sequence and 0 for padding.
func (p Padded[T]) Mask() Padded[int64] {
	mask := Padded[int64]{Values: make([]int64, len(p.Values)), Rows: p.Rows, Width: p.Width, Lengths: p.Lengths,
		Left: p.Left}
	for i := range p.Rows {
		sequence := mask.Sequence(i)
		for k := range sequence {
			sequence[k] = 1
		}
	}
	return mask
}

// Pad makes a matrix from sequences and fills up the shorter ones with value: 0 for most inputs,
// -100 for labels, which cross entropy ignores.
func Pad[T any](sequences [][]T, value T, p Padding) (Padded[T], error) {
	return PadField(sequences, func(s []T) []T { return s }, value, p)
}

// PadField is [Pad] for one field of the samples. A collate function calls it for each of its
// fields:
//
//	func collate(samples []Sample) (b Batch, err error) {
//		ids := func(s Sample) []int64 { return s.InputIDs }
//		if b.InputIDs, err = data.PadField(samples, ids, 0, data.Padding{Multiple: 8}); err != nil {
//			return b, err
//		}
//		b.Mask = b.InputIDs.Mask()
//		b.Labels = data.Stack(samples, func(s Sample) int64 { return s.Label })
//		return b, nil
//	}
func PadField[S, T any](samples []S, field func(S) []T, value T, p Padding) (Padded[T], error) {
	rows := make([][]T, len(samples))
	for i, s := range samples {
		rows[i] = field(s)
	}
	return padRows(rows, value, p)
}

func padRows[T any](rows [][]T, value T, p Padding) (Padded[T], error) {
	lengths := make([]int, len(rows))
	for i, row := range rows {
		lengths[i] = len(row)
	}
	width, err := p.width(lengths)
	if err != nil {
		return Padded[T]{}, err
	}
	padded := Padded[T]{Values: make([]T, len(rows)*width), Rows: len(rows), Width: width, Lengths: lengths,
		Left: p.Left}
	for i, from := range rows {
		row, rest := padded.Row(i), width-len(from)
		filler := row[len(from):]
		if p.Left {
			copy(row[rest:], from)
			filler = row[:rest]
		} else {
			copy(row, from)
		}
		for k := range filler {
			filler[k] = value
		}
	}
	return padded, nil
}

// Stack returns one field of all samples, such as their classes. For a field that is a slice, such as
// the features of a row of a table, [PadField] makes the matrix that a model takes.
func Stack[S, T any](samples []S, field func(S) T) []T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = field(s)
	}
	return values
}
