package hezar

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/gotrainer/gotrainer/text"
)

// TokenizerConfig is what tokenizer_config.yaml says about calls. The other fields of that file are
// for training a vocabulary.
type TokenizerConfig struct {
	// wordpiece_tokenizer, bpe_tokenizer, sentencepiece_unigram_tokenizer or
	// sentencepiece_bpe_tokenizer
	Name           string `yaml:"name"`
	TruncationSide string `yaml:"truncation_side"`   // right or left; empty means right
	PaddingSide    string `yaml:"padding_side"`      // right or left; empty means right
	Stride         int    `yaml:"stride"`            // tokens that overflowing parts share
	PadTokenTypeID int64  `yaml:"pad_token_type_id"` // of padding
	// empty means the default of the kind: [PAD] for WordPiece, <pad> for others
	PadToken string `yaml:"pad_token"`
}

// padTokens holds the default padding token of each kind of tokenizer.
var padTokens = map[string]string{
	"wordpiece_tokenizer": "[PAD]", "bpe_tokenizer": "<pad>", "sentencepiece_unigram_tokenizer": "<pad>",
	"sentencepiece_bpe_tokenizer": "<pad>",
}

// Tokenizer is one of Hezar's tokenizers.
type Tokenizer struct {
	*text.Tokenizer
	Config TokenizerConfig
}

// LoadTokenizer reads the tokenizer of a model's folder, or of its folder preprocessor/.
func LoadTokenizer(dir string) (*Tokenizer, error) {
	t := new(Tokenizer)
	path, err := readConfig(dir, "tokenizer_config.yaml", &t.Config)
	if err != nil {
		return nil, fmt.Errorf("hezar: tokenizer: %w", err)
	}
	pad, ok := padTokens[t.Config.Name]
	if !ok {
		return nil, fmt.Errorf("hezar: %s: no tokenizer is named %q; want wordpiece_tokenizer, bpe_tokenizer, "+
			"sentencepiece_unigram_tokenizer or sentencepiece_bpe_tokenizer", path, t.Config.Name)
	}
	t.Config.PadToken = cmp.Or(t.Config.PadToken, pad)
	for _, side := range []string{t.Config.TruncationSide, t.Config.PaddingSide} {
		if _, err := direction(side); err != nil {
			return nil, fmt.Errorf("hezar: %s: %w", path, err)
		}
	}
	t.Tokenizer, err = text.LoadTokenizer(filepath.Join(filepath.Dir(path), "tokenizer.json"))
	if err != nil {
		return nil, fmt.Errorf("hezar: %w", err)
	}
	return t, nil
}

// CallOptions holds the arguments of a call of Hezar's tokenizers that determine lengths, under the
// names they have there.
type CallOptions struct {
	Padding         string // longest, max_length (needs MaxLength, else it is longest), or empty or no_padding for none
	Truncation      string // longest_first, only_first, only_second, or empty or no_truncation for none
	MaxLength       int    // 0: none, and then nothing is truncated
	PadToMultipleOf int    // 0: any length
}

// strategies maps Hezar's names of truncation strategies.
var strategies = map[string]text.Strategy{"longest_first": text.LongestFirst, "only_first": text.OnlyFirst,
	"only_second": text.OnlySecond}

// Configured returns the tokenizer as Hezar configures it for a call: it adds special tokens,
// truncates and pads.
func (t *Tokenizer) Configured(o CallOptions) (*text.Tokenizer, error) {
	var truncation *text.Truncation
	if o.Truncation != "" && o.Truncation != "no_truncation" && o.MaxLength != 0 {
		strategy, ok := strategies[o.Truncation]
		if !ok {
			return nil, fmt.Errorf("hezar: truncation %q; want longest_first, only_first, only_second or no_truncation",
				o.Truncation)
		}
		side, err := direction(t.Config.TruncationSide)
		if err != nil {
			return nil, fmt.Errorf("hezar: %w", err)
		}
		truncation = &text.Truncation{MaxLength: o.MaxLength, Stride: t.Config.Stride, Strategy: strategy, Direction: side}
	}
	tok, err := t.WithTruncation(truncation)
	if err != nil {
		return nil, fmt.Errorf("hezar: %w", err)
	}
	if o.Padding == "" || o.Padding == "no_padding" {
		return tok.WithPadding(nil)
	}
	if o.Padding != "longest" && o.Padding != "max_length" {
		return nil, fmt.Errorf("hezar: padding %q; want longest, max_length or no_padding", o.Padding)
	}
	id, ok := t.TokenToID(t.Config.PadToken)
	if !ok {
		return nil, fmt.Errorf("hezar: the vocabulary lacks the padding token %q", t.Config.PadToken)
	}
	side, err := direction(t.Config.PaddingSide)
	if err != nil {
		return nil, fmt.Errorf("hezar: %w", err)
	}
	padding := &text.Padding{MultipleOf: o.PadToMultipleOf, Direction: side, ID: id, TypeID: t.Config.PadTokenTypeID,
		Token: t.Config.PadToken}
	if o.Padding == "max_length" {
		padding.Length = o.MaxLength
	}
	return tok.WithPadding(padding)
}

// direction parses the name of a side.
func direction(side string) (d text.Direction, err error) {
	switch side {
	case "", "right":
		return text.Right, nil
	case "left":
		return text.Left, nil
	}
	return text.Right, fmt.Errorf("side %q; want right or left", side)
}
