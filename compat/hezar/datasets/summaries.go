package datasets

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// SummaryOptions are the settings of TextSummarizationDatasetConfig.
type SummaryOptions struct {
	Prefix string // prepended to each text, such as "summarize: "

	MaxLength       int // maximum tokens of a text, to which every batch is padded; zero: any, padded to the longest
	LabelsMaxLength int // the same for summaries
	// CutLikeHezar truncates long texts and summaries in the collator, which removes the end token
	// that models expect. Otherwise they are truncated by the tokenizer, which keeps it.
	CutLikeHezar bool

	MaxSamples  int     // max_size as a number: use only the first samples; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all
}

// SummaryRow is a text with its summary.
type SummaryRow struct {
	Text    string `table:"text"`
	Summary string `table:"summary"`
}

// SummarySample is a tokenized text with its tokenized summary.
type SummarySample struct {
	TokenIDs      []int64
	AttentionMask []int64
	Labels        []int64 // the summary
}

// TextSummarization is Hezar's TextSummarizationDataset for rows: a data set of [SummarySample].
type TextSummarization struct {
	prepared[SummaryRow, SummarySample]
	pad     int64
	options SummaryOptions
	left    bool
}

var _ data.Dataset[SummarySample] = (*TextSummarization)(nil)

// NewTextSummarization makes a data set from rows, for instance those of package table or parquet.
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

// SummaryBatch is a batch of padded texts and summaries.
type SummaryBatch struct {
	TokenIDs      [][]int64
	AttentionMask [][]int64
	Labels        [][]int64 // with padding tokens, which T5's loss ignores
}

// Collate is TextGenerationDataCollator: it pads texts and summaries to their maximum lengths, or
// to the longest in the batch, on the tokenizer's padding side.
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

// CollateSummaries pads on the right, to the longest text and summary in the batch.
func CollateSummaries(samples []SummarySample, pad int64) (SummaryBatch, error) {
	return (&TextSummarization{pad: pad}).Collate(samples)
}
