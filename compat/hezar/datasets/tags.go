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
	Words []string `table:"words"`
	Tags  []int64  `table:"tags"`
}

// TagSample is a sequence as tokens, each with a label; [IgnoreIndex] for special tokens.
type TagSample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Labels        []int64
}

// SequenceLabeling is Hezar's SequenceLabelingDataset over rows: a data set of [TagSample].
type SequenceLabeling struct {
	prepared[TagRow, TagSample]
	tokens  tokens
	options TagOptions
}

var _ data.Dataset[TagSample] = (*SequenceLabeling)(nil)

// NewSequenceLabeling makes a data set of rows.
func NewSequenceLabeling(rows data.Dataset[TagRow], t *hezar.Tokenizer, o TagOptions) (*SequenceLabeling, error) {
	tok, err := newTokens(t, hezar.CallOptions{})
	if err != nil {
		return nil, err
	}
	d := &SequenceLabeling{tokens: tok, options: o}
	d.prepared, err = prepare(rows, o.MaxSamples, o.MaxFraction, d.sample)
	return d, err
}

// sample tokenizes the words of a row and assigns a label to each token.
func (d *SequenceLabeling) sample(row TagRow) (s TagSample, err error) {
	if len(row.Words) != len(row.Tags) {
		return s, fmt.Errorf("datasets: a row has %d words and %d tags; want a tag for each word", len(row.Words),
			len(row.Tags))
	}
	e, err := d.tokens.EncodeInput(text.Input{Words: row.Words}, nil)
	if err != nil {
		return s, err
	}
	s = TagSample{TokenIDs: e.IDs, AttentionMask: e.AttentionMask, Labels: make([]int64, len(e.IDs))}
	previous := -1
	for k, word := range e.Words {
		s.Labels[k] = IgnoreIndex
		if word >= 0 && !(word == previous && d.options.FirstTokenOnly) {
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
	err = collate(samples, PadOptions{Left: d.options.Left, MaxLength: d.options.MaxLength},
		padded[TagSample]{&b.TokenIDs, func(s TagSample) []int64 { return s.TokenIDs }, d.tokens.pad},
		padded[TagSample]{&b.AttentionMask, func(s TagSample) []int64 { return s.AttentionMask }, 0},
		padded[TagSample]{&b.Labels, func(s TagSample) []int64 { return s.Labels }, IgnoreIndex})
	return b, err
}

// CollateTags pads on the right, to the longest sequence of the batch.
func CollateTags(samples []TagSample, pad int64) (TagBatch, error) {
	return (&SequenceLabeling{tokens: tokens{pad: pad}}).Collate(samples)
}
