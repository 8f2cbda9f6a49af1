package datasets

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// TextOptions are the settings of text data sets and their collators.
type TextOptions struct {
	// MaxLength is the maximum number of tokens in a text; zero means any number.
	MaxLength int
	// CutLikeHezar truncates long texts in the collator, which removes the separator at the end
	// that models expect. Otherwise they are truncated by the tokenizer, which keeps it.
	CutLikeHezar bool

	MaxSamples  int     // max_size as a number: use only the first samples; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all
}

// TextRow is a text with its class.
type TextRow struct {
	Text  string `table:"text"`
	Label int64  `table:"label"`
}

// TextSample is a tokenized text.
type TextSample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Label         int64
}

// TextClassification is Hezar's TextClassificationDataset for rows: a data set of [TextSample].
type TextClassification struct {
	prepared[TextRow, TextSample]
	tokens  tokens
	options TextOptions
	left    bool
}

var _ data.Dataset[TextSample] = (*TextClassification)(nil)

// NewTextClassification makes a data set from rows, for instance those of package table or parquet.
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

// TextBatch is a batch of padded texts.
type TextBatch struct {
	TokenIDs      [][]int64
	AttentionMask [][]int64
	Labels        []int64
}

// Collate is TextPaddingDataCollator: it pads to the longest text in the batch, or truncates to the
// maximum length, on the tokenizer's padding side.
func (d *TextClassification) Collate(samples []TextSample) (b TextBatch, err error) {
	b.Labels = data.Stack(samples, func(s TextSample) int64 { return s.Label })
	err = collate(samples, PadOptions{Left: d.left, MaxLength: d.options.MaxLength},
		padded[TextSample]{&b.TokenIDs, func(s TextSample) []int64 { return s.TokenIDs }, d.tokens.pad},
		padded[TextSample]{&b.AttentionMask, func(s TextSample) []int64 { return s.AttentionMask }, 0})
	return b, err
}

// CollateText pads on the right, to the longest text in the batch.
func CollateText(samples []TextSample, pad int64) (TextBatch, error) {
	return (&TextClassification{tokens: tokens{pad: pad}}).Collate(samples)
}
