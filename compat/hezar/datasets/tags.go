package datasets

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// TagOptions are the settings of SequenceLabelingDatasetConfig and its collator.
type TagOptions struct {
	// MaxLength is the most tokens of a sequence, cut off in the collator as Hezar does, its labels
	// too; zero: any number.
	MaxLength int
	// FirstTokenOnly gives the word's tag to its first token alone, the others are ignored. The
	// zero value tags all of them, as Hezar's label_all_tokens.
	FirstTokenOnly bool
	// Left pads on the left. Hezar's collator has its own side, whatever the tokenizer's.
	Left bool

	MaxSamples  int     // max_size as a number: use the first ones only; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all
}

// TagRow is a sequence of words and the id of the tag of each.
type TagRow struct {
	Words []string
	Tags  []int64
}

// TagSample is a sequence as tokens, each with a label; [IgnoreIndex] for special tokens.
type TagSample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Labels        []int64
}

// SequenceLabeling is Hezar's SequenceLabelingDataset over rows that are there already: a data set
// of [TagSample].
type SequenceLabeling struct {
	rows      data.Dataset[TagRow]
	tokenizer *hezar.Tokenizer
	options   TagOptions
	length    int
}

var _ data.Dataset[TagSample] = (*SequenceLabeling)(nil)

// NewSequenceLabeling makes a data set of rows.
func NewSequenceLabeling(rows data.Dataset[TagRow], t *hezar.Tokenizer, o TagOptions) (*SequenceLabeling, error) {
	d := &SequenceLabeling{rows: rows, tokenizer: t, options: o}
	if err := checkTokenizer(t); err != nil {
		return nil, err
	}
	var err error
	d.length, err = limit(rows.Len(), o.MaxSamples, o.MaxFraction)
	return d, err
}

// Len is how many samples are used.
func (d *SequenceLabeling) Len() int { return d.length }

// At tokenizes the words of a row and gives each token a label.
func (d *SequenceLabeling) At(i int) (s TagSample, err error) {
	if i < 0 || i >= d.length {
		return s, fmt.Errorf("datasets: there is no sample %d of %d", i, d.length)
	}
	row, err := d.rows.At(i)
	if err != nil {
		return s, err
	}
	if len(row.Words) != len(row.Tags) {
		return s, fmt.Errorf("datasets: sample %d has %d words and %d tags; want a tag for each word", i,
			len(row.Words), len(row.Tags))
	}
	t, err := d.tokenizer.Configured(hezar.CallOptions{})
	if err != nil {
		return s, err
	}
	e, err := t.EncodeInput(text.Input{Words: row.Words}, nil)
	if err != nil {
		return s, err
	}
	s = TagSample{TokenIDs: e.IDs, AttentionMask: e.AttentionMask, Labels: make([]int64, len(e.IDs))}
	previous := -1
	for k, word := range e.Words {
		switch {
		case word < 0 || word == previous && d.options.FirstTokenOnly:
			s.Labels[k] = IgnoreIndex
		default:
			s.Labels[k] = row.Tags[word]
		}
		previous = word
	}
	return s, nil
}

// TagBatch is a batch of sequences, padded.
type TagBatch struct {
	TokenIDs      [][]int64
	AttentionMask [][]int64
	Labels        [][]int64
}

// Collate is SequenceLabelingDataCollator: it pads to the longest sequence of the batch, labels
// with [IgnoreIndex].
func (d *SequenceLabeling) Collate(samples []TagSample) (b TagBatch, err error) {
	if len(samples) == 0 {
		return b, data.ErrEmptyBatch
	}
	pad, err := padID(d.tokenizer)
	if err != nil {
		return b, err
	}
	for _, part := range []struct {
		to    *[][]int64
		of    func(s TagSample) []int64
		padID int64
	}{
		{&b.TokenIDs, func(s TagSample) []int64 { return s.TokenIDs }, pad},
		{&b.AttentionMask, func(s TagSample) []int64 { return s.AttentionMask }, 0},
		{&b.Labels, func(s TagSample) []int64 { return s.Labels }, IgnoreIndex},
	} {
		o := PadOptions{Padding: "longest", Left: d.options.Left, PadID: part.padID, MaxLength: d.options.MaxLength}
		if *part.to, err = PadBatch(data.Stack(samples, part.of), o); err != nil {
			return b, err
		}
	}
	return b, nil
}
