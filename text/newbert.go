package text

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/text/decoders"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

// BertOptions configures [NewBert]. The zero value means bert-base-uncased.
type BertOptions struct {
	Cased        bool  // letters keep their case
	StripAccents *bool // remove accents; nil: unless Cased
	JoinChinese  bool  // do not make each Chinese ideograph a word

	// The special tokens. Empty means [UNK], [SEP], [PAD], [CLS] and [MASK].
	Unknown, Sep, Pad, Cls, Mask string

	AddedTokens []AddedToken // additional ones
}

// withDefaults fills in BERT's special tokens where none are set.
func (o BertOptions) withDefaults() BertOptions {
	o.Unknown, o.Sep, o.Pad = cmp.Or(o.Unknown, "[UNK]"), cmp.Or(o.Sep, "[SEP]"), cmp.Or(o.Pad, "[PAD]")
	o.Cls, o.Mask = cmp.Or(o.Cls, "[CLS]"), cmp.Or(o.Mask, "[MASK]")
	return o
}

func (o BertOptions) normalizer() normalizers.BertNormalizer {
	return normalizers.BertNormalizer{CleanText: true, HandleChineseChars: !o.JoinChinese, StripAccents: o.StripAccents,
		Lowercase: !o.Cased}
}

// NewBert makes BERT's tokenizer from a WordPiece vocabulary, the same one that BertTokenizer of
// transformers makes from that vocab.txt.
func NewBert(vocab map[string]int64, o BertOptions) (*Tokenizer, error) {
	o = o.withDefaults()
	m, err := models.NewWordPiece(vocab, models.WordPieceOptions{UnknownToken: o.Unknown})
	if err != nil {
		return nil, err
	}
	n := o.normalizer()
	c := Config{
		AddedTokens: append(append([]AddedToken{}, o.AddedTokens...), SpecialTokens(o.Unknown, o.Sep, o.Pad, o.Cls,
			o.Mask)...),
		Normalizer: n, PreTokenizer: pretokenizers.BertPreTokenizer{}, Model: m, Decoder: decoders.DefaultWordPiece(),
	}
	added, err := newAddedVocabulary(c.AddedTokens, m, n)
	if err != nil {
		return nil, err
	}
	var special []processors.SpecialToken
	for _, token := range []string{o.Cls, o.Sep} {
		id, ok := added.ids[token]
		if !ok {
			return nil, fmt.Errorf("the special token %q has no id", token)
		}
		special = append(special, processors.SpecialToken{Token: token, ID: id})
	}
	c.PostProcessor, err = processors.NewTemplateProcessing(
		fmt.Sprintf("%s:0 $A:0 %s:0", o.Cls, o.Sep), fmt.Sprintf("%s:0 $A:0 %s:0 $B:1 %s:1", o.Cls, o.Sep, o.Sep),
		special...)
	if err != nil {
		return nil, err
	}
	return New(c)
}
