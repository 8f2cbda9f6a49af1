package text

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

// EncodeOptions configures encoding. Nil and the zero value mean the defaults of the reference.
type EncodeOptions struct {
	NoSpecialTokens bool // do not add special tokens
	Goroutines      int  // number of goroutines that share a batch; 0 means one per processor
}

// Input is the input of one [Encoding]: a text, or a pair of texts.
type Input struct {
	Text, Pair string
	IsPair     bool

	// Words is a text that is already split into words, and replaces Text. Each word is tokenized
	// separately, and Encoding.Words holds the indices of the words.
	Words, PairWords []string
}

// Single returns the input for one text.
func Single(text string) Input { return Input{Text: text} }

// Pair returns the input for two texts.
func Pair(a, b string) Input { return Input{Text: a, Pair: b, IsPair: true} }

// Texts makes an input from each text.
func Texts(texts ...string) []Input {
	inputs := make([]Input, len(texts))
	for i, s := range texts {
		inputs[i].Text = s
	}
	return inputs
}

// Encode tokenizes a text.
func (t *Tokenizer) Encode(text string, o *EncodeOptions) (*Encoding, error) {
	return t.EncodeInput(Input{Text: text}, o)
}

// EncodePair tokenizes two texts together.
func (t *Tokenizer) EncodePair(a, b string, o *EncodeOptions) (*Encoding, error) {
	return t.EncodeInput(Pair(a, b), o)
}

// EncodeInput tokenizes a text or a pair.
func (t *Tokenizer) EncodeInput(in Input, o *EncodeOptions) (*Encoding, error) {
	if o == nil {
		o = &EncodeOptions{}
	}
	e, err := t.encode(in, o)
	if err != nil {
		return nil, err
	}
	if t.config.Padding != nil {
		t.config.Padding.Pad([]*Encoding{e})
	}
	return e, nil
}

// EncodeBatch tokenizes many inputs in parallel, and pads them to the same length if the tokenizer
// pads.
func (t *Tokenizer) EncodeBatch(ctx context.Context, inputs []Input, o *EncodeOptions) ([]*Encoding, error) {
	if o == nil {
		o = &EncodeOptions{}
	}
	batch := make([]*Encoding, len(inputs))
	err := parallel(ctx, len(inputs), o.Goroutines, func(i int) (err error) {
		batch[i], err = t.encode(inputs[i], o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if t.config.Padding != nil {
		t.config.Padding.Pad(batch)
	}
	return batch, nil
}

// parallel calls do for each of n inputs, from several goroutines. If some fail, it returns the
// error of the one with the lowest index.
func parallel(ctx context.Context, n, goroutines int, do func(i int) error) error {
	if goroutines <= 0 {
		goroutines = runtime.GOMAXPROCS(0)
	}
	const block = 16 // inputs that a goroutine takes at a time: texts are small
	goroutines = min(goroutines, (n+block-1)/block)
	var (
		next   atomic.Int64
		group  sync.WaitGroup
		mu     sync.Mutex
		failed = -1
		first  error
	)
	work := func() {
		for ctx.Err() == nil {
			begin := int(next.Add(block)) - block
			for i := begin; i < min(begin+block, n); i++ {
				if err := do(i); err != nil {
					mu.Lock()
					if failed < 0 || i < failed {
						failed, first = i, fmt.Errorf("input %d: %w", i, err)
					}
					mu.Unlock()
					next.Store(int64(n)) // stops the other goroutines
					return
				}
			}
			if begin+block >= n {
				return
			}
		}
	}
	for range goroutines - 1 {
		group.Go(work)
	}
	if n > 0 {
		work()
	}
	group.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}

// encode does everything except padding.
func (t *Tokenizer) encode(in Input, o *EncodeOptions) (*Encoding, error) {
	special := 0
	if !o.NoSpecialTokens {
		special = t.specialTokens(in.IsPair)
	}
	e, err := t.sequence(in.Text, in.Words, 0, special)
	if err != nil {
		return nil, err
	}
	var pair *Encoding
	if in.IsPair {
		if pair, err = t.sequence(in.Pair, in.PairWords, 1, special); err != nil {
			return nil, err
		}
	}
	if tr := t.config.Truncation; tr != nil {
		if tr.MaxLength < special {
			return nil, noRoomError(tr, special)
		}
		if err := tr.Fit(e, pair, tr.MaxLength-special); err != nil {
			return nil, err
		}
	}
	return processors.Process(t.config.PostProcessor, e, pair, !o.NoSpecialTokens)
}

// sequence tokenizes one text, which may already be split into words, without special tokens.
func (t *Tokenizer) sequence(text string, words []string, typeID int64, spare int) (*Encoding, error) {
	if words == nil {
		return t.tokenize(text, typeID, -1, spare)
	}
	parts := make([]*Encoding, len(words))
	for i, w := range words {
		var err error
		if parts[i], err = t.tokenize(w, typeID, i, 0); err != nil {
			return nil, err
		}
	}
	return encodings.Merge(parts...), nil
}

// piece is a part of a text that the model will tokenize, or an added token.
type piece struct {
	normalizers.String
	added int64 // the id of the added token; negative if it is not one
}

// tokenize tokenizes one text. If word is not negative, it is the word index of all tokens;
// otherwise each piece is a word.
func (t *Tokenizer) tokenize(text string, typeID int64, word, spare int) (*Encoding, error) {
	if t.bert != nil {
		if e, err := t.bert.encode(t.added, text, typeID, word, spare); e != nil || err != nil {
			return e, err
		}
	}
	return t.tokenizeAny(text, typeID, word)
}

// tokenizeAny is the general path, which works for any tokenizer.
func (t *Tokenizer) tokenizeAny(text string, typeID int64, word int) (*Encoding, error) {
	pieces, err := t.pieces(text)
	if err != nil {
		return nil, err
	}
	toChars := charCounter(text)
	e := encodings.New(len(text)/3 + 2)
	var tokens []models.Token
	for i, p := range pieces {
		n := i
		if word >= 0 {
			n = word
		}
		if p.added >= 0 {
			span := p.Original(0, len(p.Text()))
			e.Append(p.added, typeID, p.Text(), n, toChars(span), span)
			continue
		}
		if tokens, err = t.config.Model.Tokenize(tokens[:0], p.Text()); err != nil {
			return nil, err
		}
		for _, token := range tokens {
			span := p.Original(token.Start, token.End)
			e.Append(token.ID, typeID, token.Value, n, toChars(span), span)
		}
	}
	return e, nil
}

// pieces splits a text at added tokens, and normalizes and pre-tokenizes the rest.
func (t *Tokenizer) pieces(text string) ([]piece, error) {
	whole := piece{normalizers.NewString(text), -1}
	var pieces []piece
	for _, p := range t.extract(&t.added.raw, whole) {
		if p.added < 0 {
			if n, id := t.languageCode(p.Text()); n > 0 {
				pieces = append(pieces, piece{p.Slice(0, n), id})
				p.String = p.Slice(n, len(p.Text()))
			}
			if t.config.Normalizer != nil {
				t.config.Normalizer.Normalize(&p.String)
				if err := p.Err(); err != nil {
					return nil, err
				}
			}
			pieces = append(pieces, t.extract(&t.added.cleaned, p)...)
			continue
		}
		pieces = append(pieces, p)
	}
	var words []piece
	for _, p := range pieces {
		switch {
		case p.Text() == "":
		case p.added >= 0 || t.config.PreTokenizer == nil:
			words = append(words, p)
		default:
			for _, w := range t.config.PreTokenizer.PreTokenize(p.String) {
				if err := w.Err(); err != nil {
					return nil, err
				}
				if w.Text() != "" {
					words = append(words, piece{w, -1})
				}
			}
		}
	}
	return words, nil
}

// extract splits a piece at added tokens. Even without any, it slices the piece, so that, as in the
// reference, it starts at the original position of its first character, after anything that
// normalization removed: Metaspace depends on this.
func (t *Tokenizer) extract(m *matcher, p piece) []piece {
	parts := t.added.split(m, p.Text())
	if parts == nil {
		parts = []segment{{0, len(p.Text()), p.added}}
	}
	pieces := make([]piece, len(parts))
	for i, f := range parts {
		pieces[i] = piece{p.Slice(f.start, f.end), f.id}
	}
	return pieces
}

// charCounter returns a function that converts spans of bytes of the text to spans of characters. A
// token with more bytes than the text, such as one with a suffix, ends where the text ends.
func charCounter(text string) func(Span) Span {
	ascii, most := true, len(text)
	for i := range len(text) {
		if text[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return func(s Span) Span { return Span{Start: min(s.Start, most), End: min(s.End, most)} }
	}
	chars := make([]int32, len(text)+1) // the character that each byte is part of
	n := int32(-1)
	last := 0
	for i := range text {
		for ; last < i; last++ {
			chars[last] = n
		}
		n++
	}
	for ; last < len(text); last++ {
		chars[last] = n
	}
	chars[len(text)] = n + 1
	return func(s Span) Span {
		return Span{Start: int(chars[min(s.Start, most)]), End: int(chars[min(s.End, most)])}
	}
}
