package text

import (
	"iter"

	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// TrainOptions configures training a vocabulary; the zero value means the defaults of the
// reference.
type TrainOptions = models.TrainOptions

// TrainBert learns a WordPiece vocabulary from texts and makes BERT's tokenizer from it. The
// vocabulary starts with the special tokens of o, in the order [PAD], [UNK], [CLS], [SEP], [MASK],
// followed by those of the training options. The same texts give the same vocabulary.
func TrainBert(texts iter.Seq[string], o BertOptions, t TrainOptions) (*Tokenizer, error) {
	o = o.withDefaults()
	t.SpecialTokens = append([]string{o.Pad, o.Unknown, o.Cls, o.Sep, o.Mask}, t.SpecialTokens...)
	t.UnknownToken, t.Prefix = o.Unknown, ""
	model, err := models.TrainWordPiece(CountWords(texts, o.normalizer(), pretokenizers.BertPreTokenizer{}), t)
	if err != nil {
		return nil, err
	}
	vocab := make(map[string]int64, model.VocabSize())
	for token, id := range model.Vocab() {
		vocab[token] = id
	}
	return NewBert(vocab, o)
}

// CountWords counts the words that a normalizer and a pre-tokenizer make from texts; either may be
// nil.
func CountWords(texts iter.Seq[string], n normalizers.Normalizer, p pretokenizers.PreTokenizer) map[string]int {
	words := map[string]int{}
	for text := range texts {
		s := normalizers.NewString(text)
		if n != nil {
			n.Normalize(&s)
		}
		pieces := []normalizers.String{s}
		if p != nil {
			pieces = p.PreTokenize(s)
		}
		for _, w := range pieces {
			if w.Text() != "" {
				words[w.Text()]++
			}
		}
	}
	return words
}
