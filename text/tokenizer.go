package text

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/text/decoders"
	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

// The result of encoding a text, and how it is truncated and padded; package encodings has the
// details.
type (
	Encoding   = encodings.Encoding
	Span       = encodings.Span
	Truncation = encodings.Truncation
	Padding    = encodings.Padding
	Direction  = encodings.Direction
	Strategy   = encodings.Strategy
)

// The sides and strategies of [Truncation] and [Padding].
const (
	Right = encodings.Right
	Left  = encodings.Left

	LongestFirst = encodings.LongestFirst
	OnlyFirst    = encodings.OnlyFirst
	OnlySecond   = encodings.OnlySecond
)

// Config holds the components of a tokenizer, in the order in which they process a text. Only
// Model is required.
type Config struct {
	AddedTokens   []AddedToken
	Normalizer    normalizers.Normalizer
	PreTokenizer  pretokenizers.PreTokenizer
	Model         models.Model
	PostProcessor processors.PostProcessor
	Decoder       decoders.Decoder
	Truncation    *Truncation // nil: texts may have any length
	Padding       *Padding    // nil: encodings keep their length
}

// Tokenizer turns texts into tokens and tokens into texts. It is immutable and safe for concurrent
// use.
type Tokenizer struct {
	config Config
	added  *addedVocabulary
	bert   *bertPath // the fast path for BERT's pipeline; nil if the pipeline is another one
	layout *layout   // where the post-processor puts ids; nil if it must be run to know

	codes  bool         // a text may begin with the code of a language, as in a MarianTokenizer
	marian *marianSides // of the source texts of a MarianTokenizer
}

// New makes a tokenizer from its components.
func New(c Config) (*Tokenizer, error) {
	if c.Model == nil {
		return nil, errors.New("a tokenizer needs a model: set Config.Model")
	}
	added, err := newAddedVocabulary(c.AddedTokens, c.Model, c.Normalizer)
	if err != nil {
		return nil, err
	}
	c.AddedTokens = added.list()
	t := &Tokenizer{config: c, added: added, layout: layoutOf(c.PostProcessor)}
	t.bert = newBertPath(c, added)
	if c.Truncation != nil {
		if t, err = t.WithTruncation(c.Truncation); err != nil {
			return nil, err
		}
	}
	if c.Padding != nil {
		return t.WithPadding(c.Padding)
	}
	return t, nil
}

// Config returns the components.
func (t *Tokenizer) Config() Config { return t.config }

// WithTruncation returns a tokenizer that differs only in how it truncates; with nil it does not.
func (t *Tokenizer) WithTruncation(o *Truncation) (*Tokenizer, error) {
	c := *t
	c.config.Truncation = nil
	if o != nil {
		copied := *o
		c.config.Truncation = &copied
		special := t.specialTokens(false)
		switch {
		case o.MaxLength < special:
			return nil, fmt.Errorf("truncation to %d tokens leaves no room for the %d special ones; set a larger "+
				"MaxLength", o.MaxLength, special)
		case o.Stride < 0 || o.Stride > o.MaxLength-special:
			return nil, fmt.Errorf("%w: stride %d, %d tokens of %d left besides the special ones", encodings.ErrStride,
				o.Stride, o.MaxLength-special, o.MaxLength)
		case o.Strategy < LongestFirst || o.Strategy > OnlySecond || o.Direction < Right || o.Direction > Left:
			return nil, fmt.Errorf("truncation with strategy %d and direction %d: there are no such ones", o.Strategy,
				o.Direction)
		}
	}
	return &c, nil
}

// WithPadding returns a tokenizer that differs only in how it pads; with nil it does not.
func (t *Tokenizer) WithPadding(o *Padding) (*Tokenizer, error) {
	c := *t
	c.config.Padding = nil
	if o != nil {
		if err := o.Check(); err != nil {
			return nil, err
		}
		copied := *o
		c.config.Padding = &copied
	}
	return &c, nil
}

// WithPostProcessor returns a tokenizer that differs only in its post-processor; with nil it has
// none.
func (t *Tokenizer) WithPostProcessor(p processors.PostProcessor) (*Tokenizer, error) {
	c := *t
	c.config.PostProcessor, c.layout = p, layoutOf(p)
	return c.WithTruncation(c.config.Truncation) // which must leave room for other special tokens
}

// specialTokens returns the number of tokens that the post-processor adds.
func (t *Tokenizer) specialTokens(isPair bool) int {
	if t.config.PostProcessor == nil {
		return 0
	}
	return t.config.PostProcessor.AddedTokens(isPair)
}

// TokenToID returns the id of a token.
func (t *Tokenizer) TokenToID(token string) (int64, bool) {
	if id, ok := t.added.ids[token]; ok {
		return id, true
	}
	return t.config.Model.TokenToID(token)
}

// IDToToken returns the token with the given id. An added token that is searched for in the
// normalized text is returned in its normalized form.
func (t *Tokenizer) IDToToken(id int64) (string, bool) {
	if content, ok := t.added.normalized[id]; ok {
		return content, true
	}
	if a, ok := t.added.tokens[id]; ok {
		return a.Content, true
	}
	return t.config.Model.IDToToken(id)
}

// VocabSize returns the number of tokens, including added ones: the number of rows a model's
// embedding needs if the ids have no gaps.
func (t *Tokenizer) VocabSize() int {
	n := t.config.Model.VocabSize()
	for token := range t.added.ids {
		if _, ok := t.config.Model.TokenToID(token); !ok {
			n++
		}
	}
	return n
}

// DecodeOptions configures [Tokenizer.Decode]. Nil and the zero value mean the defaults of the
// reference.
type DecodeOptions struct {
	KeepSpecialTokens bool // do not omit special tokens
}

// Decode returns the text of tokens. Ids that are not in the vocabulary are skipped.
func (t *Tokenizer) Decode(ids []int64, o *DecodeOptions) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		token, ok := t.IDToToken(id)
		if ok && (o != nil && o.KeepSpecialTokens || !t.added.special[token]) {
			tokens = append(tokens, token)
		}
	}
	return decoders.Decode(t.config.Decoder, tokens)
}
