package datasets

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// SummaryOptions are the settings of TextSummarizationDatasetConfig.
type SummaryOptions struct {
	Prefix string // in front of each text, such as "summarize: "

	MaxLength       int // the most tokens of a text, and how many every batch has; zero: any, and those of its longest
	LabelsMaxLength int // the same of a summary
	// CutLikeHezar cuts too long texts and summaries off in the collator, and with the end the token
	// that models expect there. The zero value truncates where the text is tokenized, which keeps it.
	CutLikeHezar bool

	MaxSamples  int     // max_size as a number: use the first ones only; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all
}

// SummaryRow is a text and what is to be written about it.
type SummaryRow struct {
	Text    string `table:"text"`
	Summary string `table:"summary"`
}

// SummarySample is both as tokens.
type SummarySample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Labels        []int64 // of what is to be written
}

// TextSummarization is Hezar's TextSummarizationDataset over rows: a data set of [SummarySample].
type TextSummarization struct {
	prepared[SummaryRow, SummarySample]
	pad     int64
	options SummaryOptions
	left    bool
}

var _ data.Dataset[SummarySample] = (*TextSummarization)(nil)

// NewTextSummarization makes a data set of rows, those of package table or parquet for instance.
func NewTextSummarization(rows data.Dataset[SummaryRow], t *hezar.Tokenizer, o SummaryOptions) (*TextSummarization,
	error) {
	cut := func(length int) (tokens, error) {
		if o.CutLikeHezar {
			return newTokens(t, hezar.CallOptions{})
		}
		return newTokens(t, hezar.CallOptions{Truncation: "longest_first", MaxLength: length})
	}
	texts, err := cut(o.MaxLength)
	if err != nil {
		return nil, err
	}
	summaries, err := cut(o.LabelsMaxLength)
	if err != nil {
		return nil, err
	}
	d := &TextSummarization{pad: texts.pad, options: o, left: t.Config.PaddingSide == "left"}
	d.prepared, err = prepare(rows, o.MaxSamples, o.MaxFraction, func(row SummaryRow) (s SummarySample, err error) {
		text, err := texts.Encode(o.Prefix+row.Text, nil)
		if err != nil {
			return s, err
		}
		summary, err := summaries.Encode(row.Summary, nil)
		if err != nil {
			return s, err
		}
		return SummarySample{text.IDs, text.AttentionMask, summary.IDs}, nil
	})
	return d, err
}

// SummaryBatch is a batch of texts and summaries, each padded.
type SummaryBatch struct {
	TokenIDs      [][]int64
	AttentionMask [][]int64
	Labels        [][]int64 // with the padding token, which the loss of T5 leaves out
}

// Collate is TextGenerationDataCollator: it pads texts and summaries to their greatest lengths, or to
// the longest of the batch, on the tokenizer's side.
func (d *TextSummarization) Collate(samples []SummarySample) (b SummaryBatch, err error) {
	if len(samples) == 0 {
		return b, data.ErrEmptyBatch
	}
	for _, f := range []struct {
		padded[SummarySample]
		most int
	}{
		{padded[SummarySample]{&b.TokenIDs, func(s SummarySample) []int64 { return s.TokenIDs }, d.pad},
			d.options.MaxLength},
		{padded[SummarySample]{&b.AttentionMask, func(s SummarySample) []int64 { return s.AttentionMask }, 0},
			d.options.MaxLength},
		{padded[SummarySample]{&b.Labels, func(s SummarySample) []int64 { return s.Labels }, d.pad},
			d.options.LabelsMaxLength},
	} {
		o := PadOptions{PadID: f.id, Left: d.left, MaxLength: f.most}
		if *f.to, err = PadBatch(data.Stack(samples, f.of), o); err != nil {
			return b, err
		}
	}
	return b, nil
}

// CollateSummaries pads on the right, to the longest text and summary of the batch.
func CollateSummaries(samples []SummarySample, pad int64) (SummaryBatch, error) {
	return (&TextSummarization{pad: pad}).Collate(samples)
}
