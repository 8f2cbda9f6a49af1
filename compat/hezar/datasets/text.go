package datasets

import (
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
	Text  string `table:"text"`
	Label int64  `table:"label"`
}

// TextSample is a text as tokens.
type TextSample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Label         int64
}

// TextClassification is Hezar's TextClassificationDataset over rows: a data set of [TextSample].
type TextClassification struct {
	prepared[TextRow, TextSample]
	tokens  tokens
	options TextOptions
	left    bool
}

var _ data.Dataset[TextSample] = (*TextClassification)(nil)

// NewTextClassification makes a data set of rows, those of package table or parquet for instance.
func NewTextClassification(rows data.Dataset[TextRow], t *hezar.Tokenizer, o TextOptions) (*TextClassification, error) {
	call := hezar.CallOptions{}
	if !o.CutLikeHezar {
		call = hezar.CallOptions{Truncation: "longest_first", MaxLength: o.MaxLength}
	}
	tok, err := newTokens(t, call)
	if err != nil {
		return nil, err
	}
	d := &TextClassification{tokens: tok, options: o, left: t.Config.PaddingSide == "left"}
	d.prepared, err = prepare(rows, o.MaxSamples, o.MaxFraction, func(row TextRow) (TextSample, error) {
		e, err := tok.Encode(row.Text, nil)
		if err != nil {
			return TextSample{}, err
		}
		return TextSample{e.IDs, e.AttentionMask, row.Label}, nil
	})
	return d, err
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
	b.Labels = data.Stack(samples, func(s TextSample) int64 { return s.Label })
	err = collate(samples, PadOptions{Left: d.left, MaxLength: d.options.MaxLength},
		padded[TextSample]{&b.TokenIDs, func(s TextSample) []int64 { return s.TokenIDs }, d.tokens.pad},
		padded[TextSample]{&b.AttentionMask, func(s TextSample) []int64 { return s.AttentionMask }, 0})
	return b, err
}

// CollateText pads on the right, to the longest text of the batch.
func CollateText(samples []TextSample, pad int64) (TextBatch, error) {
	return (&TextClassification{tokens: tokens{pad: pad}}).Collate(samples)
}
