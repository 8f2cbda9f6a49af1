package datasets

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// TextOptions are the settings of text data sets and their collators.
type TextOptions struct {
	// MaxLength is the most tokens of a text; zero: any number.
	MaxLength int
	// CutLikeHezar cuts too long texts off in the collator, and with the end the separator that
	// models expect there. The zero value truncates where the text is tokenized, which keeps it.
	CutLikeHezar bool

	MaxSamples  int     // max_size as a number: use the first ones only; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all
}

// TextRow is a text and its class.
type TextRow struct {
	Text  string
	Label int64
}

// TextSample is a text as tokens.
type TextSample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Label         int64
}

// TextClassification is Hezar's TextClassificationDataset over rows that are there already: a data
// set of [TextSample].
type TextClassification struct {
	rows      data.Dataset[TextRow]
	tokenizer *hezar.Tokenizer
	options   TextOptions
	length    int
}

var _ data.Dataset[TextSample] = (*TextClassification)(nil)

// NewTextClassification makes a data set of rows, those of package table or parquet for instance.
func NewTextClassification(rows data.Dataset[TextRow], t *hezar.Tokenizer, o TextOptions) (*TextClassification, error) {
	d := &TextClassification{rows: rows, tokenizer: t, options: o}
	if err := checkTokenizer(t); err != nil {
		return nil, err
	}
	var err error
	d.length, err = limit(rows.Len(), o.MaxSamples, o.MaxFraction)
	return d, err
}

func checkTokenizer(t *hezar.Tokenizer) error {
	if t == nil {
		return fmt.Errorf("datasets: a data set of texts without a tokenizer: Hezar's preprocessor is required")
	}
	_, err := padID(t)
	return err
}

func padID(t *hezar.Tokenizer) (int64, error) {
	id, ok := t.TokenToID(t.Config.PadToken)
	if !ok {
		return 0, fmt.Errorf("datasets: the vocabulary lacks the padding token %q", t.Config.PadToken)
	}
	return id, nil
}

// Len is how many samples are used.
func (d *TextClassification) Len() int { return d.length }

// At tokenizes a text.
func (d *TextClassification) At(i int) (TextSample, error) {
	if i < 0 || i >= d.length {
		return TextSample{}, fmt.Errorf("datasets: there is no sample %d of %d", i, d.length)
	}
	row, err := d.rows.At(i)
	if err != nil {
		return TextSample{}, err
	}
	call := hezar.CallOptions{}
	if !d.options.CutLikeHezar {
		call = hezar.CallOptions{Truncation: "longest_first", MaxLength: d.options.MaxLength}
	}
	t, err := d.tokenizer.Configured(call)
	if err != nil {
		return TextSample{}, err
	}
	e, err := t.Encode(row.Text, nil)
	if err != nil {
		return TextSample{}, err
	}
	return TextSample{e.IDs, e.AttentionMask, row.Label}, nil
}

// TextBatch is a batch of texts, padded.
type TextBatch struct {
	TokenIDs      [][]int64
	AttentionMask [][]int64
	Labels        []int64
}

// Collate is TextPaddingDataCollator: it pads to the longest text of the batch, or cuts off at the
// greatest length, on the tokenizer's side.
func (d *TextClassification) Collate(samples []TextSample) (b TextBatch, err error) {
	if len(samples) == 0 {
		return b, data.ErrEmptyBatch
	}
	pad, err := padID(d.tokenizer)
	if err != nil {
		return b, err
	}
	o := PadOptions{Padding: "longest", Left: d.tokenizer.Config.PaddingSide == "left", PadID: pad,
		MaxLength: d.options.MaxLength}
	if b.TokenIDs, err = PadBatch(data.Stack(samples, func(s TextSample) []int64 { return s.TokenIDs }),
		o); err != nil {
		return b, err
	}
	o.PadID = 0
	b.AttentionMask, err = PadBatch(data.Stack(samples, func(s TextSample) []int64 { return s.AttentionMask }), o)
	b.Labels = data.Stack(samples, func(s TextSample) int64 { return s.Label })
	return b, err
}
