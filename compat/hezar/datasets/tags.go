package datasets

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// TagOptions are the settings of SequenceLabelingDatasetConfig and its collator.
type TagOptions struct {
	// MaxLength is the maximum number of tokens in a sequence; longer ones are truncated in the
	// collator, with their labels, as in Hezar. Zero means any number.
	MaxLength int
	// FirstTokenOnly labels only the first token of a word, and ignores the others. The zero value
	// labels all of them, like Hezar's label_all_tokens.
	FirstTokenOnly bool
	// Left pads on the left. Hezar's collator has its own setting, independent of the tokenizer's.
	Left bool

	MaxSamples  int     // max_size as a number: use only the first samples; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all
}

// TagRow is a sequence of words with the ID of each word's tag.
type TagRow struct {
	Words []string `table:"words"`
	Tags  []int64  `table:"tags"`
}

// TagSample is a tokenized sequence with a label for each token, which is [IgnoreIndex] for special
// tokens.
type TagSample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Labels        []int64
}

// SequenceLabeling is Hezar's SequenceLabelingDataset for rows: a data set of [TagSample].
type SequenceLabeling struct {
	prepared[TagRow, TagSample]
	tokens  tokens
	options TagOptions
}

var _ data.Dataset[TagSample] = (*SequenceLabeling)(nil)

// NewSequenceLabeling makes a data set from rows.
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

// TagBatch is a batch of padded sequences.
type TagBatch struct {
	TokenIDs      [][]int64
	AttentionMask [][]int64
	Labels        [][]int64
}

// Collate is SequenceLabelingDataCollator: it pads to the longest sequence in the batch, and labels
// with [IgnoreIndex].
func (d *SequenceLabeling) Collate(samples []TagSample) (b TagBatch, err error) {
	err = collate(samples, PadOptions{Left: d.options.Left, MaxLength: d.options.MaxLength},
		padded[TagSample]{&b.TokenIDs, func(s TagSample) []int64 { return s.TokenIDs }, d.tokens.pad},
		padded[TagSample]{&b.AttentionMask, func(s TagSample) []int64 { return s.AttentionMask }, 0},
		padded[TagSample]{&b.Labels, func(s TagSample) []int64 { return s.Labels }, IgnoreIndex})
	return b, err
}

// CollateTags pads on the right, to the longest sequence in the batch.
func CollateTags(samples []TagSample, pad int64) (TagBatch, error) {
	return (&SequenceLabeling{tokens: tokens{pad: pad}}).Collate(samples)
}
