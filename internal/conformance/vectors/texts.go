package vectors

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// recordedTexts is the result.json of a data set of texts.
type recordedTexts struct {
	Pieces      []string
	PaddingSide string `json:"padding_side"`
	MaxLength   *int   `json:"max_length"`
	Texts       []string
	LabelNames  []string `json:"label_names"`
	Labels      []int64
	Items       []struct {
		TokenIDs      []int64 `json:"token_ids"`
		AttentionMask []int64 `json:"attention_mask"`
		Labels        int64
	}
	BatchSize int `json:"batch_size"`
	Batches   []struct {
		TokenIDs      [][]int64 `json:"token_ids"`
		AttentionMask [][]int64 `json:"attention_mask"`
		Labels        []int64
	}
	Predict *struct {
		Model           struct{ Config json.RawMessage }
		Init            recorded.Formula
		ReplacePatterns hezar.Patterns `json:"replace_patterns"`
		OneByOne        []struct {
			Text   string
			Inputs struct {
				TokenIDs [][]int64 `json:"token_ids"`
			}
			Output []recordedText
		} `json:"one_by_one"`
	}
}

// wordpieceJSON is a tokenizer.json with placeholders for the IDs of [CLS] and [SEP] and the
// vocabulary.
const wordpieceJSON = `{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
	"pre_tokenizer": {"type": "BertPreTokenizer"},
	"post_processor": {"type": "TemplateProcessing",
		"single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
			{"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
		"pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
			{"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
			{"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
		"special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [%d], "tokens": ["[CLS]"]},
			"[SEP]": {"id": "[SEP]", "ids": [%d], "tokens": ["[SEP]"]}}},
	"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
	"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
		"max_input_chars_per_word": 100, "vocab": %s}}`

// wordpiece returns the tokenizer of the recordings: WordPiece with BERT's pre-tokenization, [CLS]
// and [SEP] around a text.
func wordpiece(pieces []string, side string) *hezar.Tokenizer {
	vocab := map[string]int{}
	for i, p := range pieces {
		vocab[p] = i
	}
	raw := fmt.Appendf(nil, wordpieceJSON, vocab["[CLS]"], vocab["[SEP]"], spec.Must(json.Marshal(vocab)))
	return &hezar.Tokenizer{Tokenizer: spec.Must(text.ParseTokenizer(raw)), Config: hezar.TokenizerConfig{
		Name: "wordpiece_tokenizer", PaddingSide: side, TruncationSide: "right", PadToken: "[PAD]"}}
}

func texts(c *check, r recordedTexts) {
	tok := wordpiece(r.Pieces, r.PaddingSide)
	rows := make(data.Slice[datasets.TextRow], len(r.Texts))
	for i := range rows {
		rows[i] = datasets.TextRow{Text: r.Texts[i], Label: r.Labels[i]}
	}
	o := datasets.TextOptions{CutLikeHezar: true}
	if r.MaxLength != nil {
		o.MaxLength = *r.MaxLength
	}
	set := spec.Must(datasets.NewTextClassification(rows, tok, o))
	var samples []datasets.TextSample
	for i := range set.Len() {
		s := spec.Must(set.At(i))
		samples = append(samples, s)
		c.equal(fmt.Sprintf("items[%d].token_ids", i), s.TokenIDs, r.Items[i].TokenIDs)
		c.equal(fmt.Sprintf("items[%d].attention_mask", i), s.AttentionMask, r.Items[i].AttentionMask)
		c.equal(fmt.Sprintf("items[%d].labels", i), s.Label, r.Items[i].Labels)
	}
	for i, want := range r.Batches {
		b := spec.Must(set.Collate(samples[i*r.BatchSize : min((i+1)*r.BatchSize, len(samples))]))
		c.equal(fmt.Sprintf("batches[%d].token_ids", i), b.TokenIDs, want.TokenIDs)
		c.equal(fmt.Sprintf("batches[%d].attention_mask", i), b.AttentionMask, want.AttentionMask)
		c.equal(fmt.Sprintf("batches[%d].labels", i), b.Labels, want.Labels)
	}
	if r.Predict != nil {
		predictTexts(c, r, tok)
	}
}

func predictTexts(c *check, r recordedTexts, tok *hezar.Tokenizer) {
	load()
	n := spec.Must(hezar.NewNormalizer(hezar.NormalizerConfig{ReplacePatterns: r.Predict.ReplacePatterns}))
	reader := model(recorded.BERT, r.Predict.Model.Config, r.Predict.Init,
		&preprocessors.Set{Normalizer: n, Tokenizer: tok})
	for i, one := range r.Predict.OneByOne {
		e := spec.Must(tok.Encode(n.Normalize(one.Text), nil))
		c.equal(fmt.Sprintf("one_by_one[%d].inputs", i), [][]int64{e.IDs}, one.Inputs.TokenIDs)
		classes := spec.Must(reader.Predict(context.Background(), one.Text))[0].Classes
		compareClasses(c, fmt.Sprintf("one_by_one[%d]", i), [][]repository.Class{classes[:len(one.Output)]},
			[][]recordedText{one.Output})
	}
}
