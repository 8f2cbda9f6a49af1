package vectors

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// recordedTexts is result.json of a data set of texts.
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

// wordpiece is the tokenizer of the recordings: WordPiece over BERT's pre-tokenization, [CLS] and
// [SEP] around a text.
func wordpiece(pieces []string, side string) (*hezar.Tokenizer, error) {
	vocab := map[string]int{}
	for i, p := range pieces {
		vocab[p] = i
	}
	special := func(id string, typeID int) any {
		return map[string]any{"SpecialToken": map[string]any{"id": id, "type_id": typeID}}
	}
	sequence := func(id string, typeID int) any {
		return map[string]any{"Sequence": map[string]any{"id": id, "type_id": typeID}}
	}
	token := func(id string) any {
		return map[string]any{"id": id, "ids": []int{vocab[id]}, "tokens": []string{id}}
	}
	raw, err := json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": []any{}, "normalizer": nil,
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"post_processor": map[string]any{
			"type": "TemplateProcessing", "single": []any{special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0)},
			"pair": []any{special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0), sequence("B", 1),
				special("[SEP]", 1)},
			"special_tokens": map[string]any{"[CLS]": token("[CLS]"), "[SEP]": token("[SEP]")},
		},
		"decoder": map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": vocab},
	})
	if err != nil {
		return nil, err
	}
	t, err := text.ParseTokenizer(raw)
	if err != nil {
		return nil, err
	}
	return &hezar.Tokenizer{Tokenizer: t, Config: hezar.TokenizerConfig{Name: "wordpiece_tokenizer", PaddingSide: side,
		TruncationSide: "right", PadToken: "[PAD]"}}, nil
}

func texts(c *check, raw []byte) error {
	var r recordedTexts
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	tok, err := wordpiece(r.Pieces, r.PaddingSide)
	if err != nil {
		return err
	}
	rows := make(data.Slice[datasets.TextRow], len(r.Texts))
	for i := range rows {
		rows[i] = datasets.TextRow{Text: r.Texts[i], Label: r.Labels[i]}
	}
	o := datasets.TextOptions{CutLikeHezar: true}
	if r.MaxLength != nil {
		o.MaxLength = *r.MaxLength
	}
	set, err := datasets.NewTextClassification(rows, tok, o)
	if err != nil {
		return err
	}
	var samples []datasets.TextSample
	for i := range set.Len() {
		s, err := set.At(i)
		if err != nil {
			return err
		}
		samples = append(samples, s)
		c.equal(fmt.Sprintf("items[%d].token_ids", i), s.TokenIDs, r.Items[i].TokenIDs)
		c.equal(fmt.Sprintf("items[%d].attention_mask", i), s.AttentionMask, r.Items[i].AttentionMask)
		c.equal(fmt.Sprintf("items[%d].labels", i), s.Label, r.Items[i].Labels)
	}
	for i, want := range r.Batches {
		b, err := set.Collate(samples[i*r.BatchSize : min((i+1)*r.BatchSize, len(samples))])
		if err != nil {
			return err
		}
		c.equal(fmt.Sprintf("batches[%d].token_ids", i), b.TokenIDs, want.TokenIDs)
		c.equal(fmt.Sprintf("batches[%d].attention_mask", i), b.AttentionMask, want.AttentionMask)
		c.equal(fmt.Sprintf("batches[%d].labels", i), b.Labels, want.Labels)
	}
	if r.Predict == nil {
		return nil
	}
	return predictTexts(c, r, tok)
}

func predictTexts(c *check, r recordedTexts, tok *hezar.Tokenizer) error {
	if err := loaded(); err != nil {
		return err
	}
	config, err := mapping(r.Predict.Model.Config)
	if err != nil {
		return err
	}
	m, err := newBERT(config, r.Predict.Init)
	if err != nil {
		return err
	}
	n, err := hezar.NewNormalizer(hezar.NormalizerConfig{ReplacePatterns: r.Predict.ReplacePatterns})
	if err != nil {
		return err
	}
	model := repository.TextClassification{Model: m, Preprocessors: &preprocessors.Set{Normalizer: n, Tokenizer: tok}}
	for i, one := range r.Predict.OneByOne {
		e, err := tok.Encode(n.Normalize(one.Text), nil)
		if err != nil {
			return err
		}
		c.equal(fmt.Sprintf("one_by_one[%d].inputs", i), [][]int64{e.IDs}, one.Inputs.TokenIDs)
		got, err := model.Predict(len(one.Output), one.Text)
		if err != nil {
			return err
		}
		compareClasses(c, fmt.Sprintf("one_by_one[%d]", i), got, [][]recordedText{one.Output})
	}
	return nil
}
