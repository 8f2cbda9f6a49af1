package text

import (
	"iter"

	"github.com/gotrainer/gotrainer/text/decoders"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

const endOfText = "<|endoftext|>"

// NewByteLevel makes GPT-2's tokenizer from a byte-level model: words are split as in GPT-2, there
// are no unknown tokens, and Decode restores every byte. The special tokens must be in the
// vocabulary; otherwise they get the ids after it.
func NewByteLevel(m *models.BPE, special ...string) (*Tokenizer, error) {
	return New(Config{
		AddedTokens:   SpecialTokens(special...),
		PreTokenizer:  pretokenizers.ByteLevel{TrimOffsets: true, UseRegex: true},
		Model:         m,
		PostProcessor: processors.ByteLevel{ByteLevel: pretokenizers.ByteLevel{AddPrefixSpace: true, UseRegex: true}},
		Decoder:       decoders.ByteLevel{ByteLevel: pretokenizers.DefaultByteLevel()},
	})
}

// TrainByteLevel learns a byte-level vocabulary from texts, as BpeTrainer of the reference does,
// and makes GPT-2's tokenizer from it. The vocabulary starts with the special tokens,
// <|endoftext|> if the options name none, followed by the characters that stand for the 256 bytes.
// The options Prefix and InitialAlphabet are ignored. The same texts give the same vocabulary.
func TrainByteLevel(texts iter.Seq[string], o TrainOptions) (*Tokenizer, error) {
	if o.SpecialTokens == nil {
		o.SpecialTokens = []string{endOfText}
	}
	o.Prefix, o.UnknownToken, o.InitialAlphabet = "", "", nil
	for b := range 256 {
		o.InitialAlphabet = append(o.InitialAlphabet, normalizers.ByteRune(byte(b)))
	}
	cut := pretokenizers.ByteLevel{UseRegex: true}
	model, err := models.TrainBPE(CountWords(texts, nil, cut), o)
	if err != nil {
		return nil, err
	}
	return NewByteLevel(model, o.SpecialTokens...)
}
