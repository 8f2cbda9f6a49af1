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

// NewByteLevel makes GPT-2's tokenizer of a model of bytes: words are cut as GPT-2 cuts them, nothing
// is unknown, and Decode gives back every byte. The special tokens must be in the vocabulary, or get
// the ids behind it.
func NewByteLevel(m *models.BPE, special ...string) (*Tokenizer, error) {
	return New(Config{
		AddedTokens:   SpecialTokens(special...),
		PreTokenizer:  pretokenizers.ByteLevel{TrimOffsets: true, UseRegex: true},
		Model:         m,
		PostProcessor: processors.ByteLevel{ByteLevel: pretokenizers.ByteLevel{AddPrefixSpace: true, UseRegex: true}},
		Decoder:       decoders.ByteLevel{ByteLevel: pretokenizers.DefaultByteLevel()},
	})
}

// TrainByteLevel learns a byte-level vocabulary from texts, as BpeTrainer of the reference does, and
// makes GPT-2's tokenizer of it. The special tokens come first in the vocabulary, <|endoftext|> where
// the options name none, then the characters that stand for the 256 bytes. The options' Prefix and
// InitialAlphabet have no meaning here. The same texts give the same vocabulary.
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
