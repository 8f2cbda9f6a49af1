package decoders

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// Decoder changes tokens so that the text is what they make behind one another. It must be safe to
// use from several goroutines.
type Decoder interface {
	// DecodeChain returns the changed tokens; it may use the slice it was given.
	DecodeChain(tokens []string) []string
}

// Decode returns the text of tokens. Without a decoder, d nil, a space stands between them.
func Decode(d Decoder, tokens []string) string {
	if d == nil {
		return strings.Join(tokens, " ")
	}
	return strings.Join(d.DecodeChain(tokens), "")
}

// Sequence applies decoders one after the other.
type Sequence []Decoder

// DecodeChain applies all of them.
func (q Sequence) DecodeChain(tokens []string) []string {
	for _, d := range q {
		tokens = d.DecodeChain(tokens)
	}
	return tokens
}

// WordPiece puts a space before each token but the first and tokens that continue a word.
type WordPiece struct {
	Prefix  string `json:"prefix"`  // of tokens that continue a word
	Cleanup bool   `json:"cleanup"` // take spaces out before punctuation and contractions of English
}

// DefaultWordPiece has the prefix ## and cleans up.
func DefaultWordPiece() WordPiece { return WordPiece{Prefix: "##", Cleanup: true} }

// DecodeChain joins words.
func (d WordPiece) DecodeChain(tokens []string) []string {
	for i, t := range tokens {
		if i > 0 {
			if rest, ok := strings.CutPrefix(t, d.Prefix); ok {
				t = rest
			} else {
				t = " " + t
			}
		}
		if d.Cleanup {
			t = cleanup(t)
		}
		tokens[i] = t
	}
	return tokens
}

// cleanup replaces in this order: each looks at what the one before it left.
func cleanup(s string) string {
	for _, pair := range [...][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
		{" do not", " don't"},
		{" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, pair[0], pair[1])
	}
	return s
}

// ByteLevel makes bytes of the printable characters of byte-level vocabularies. What is no UTF-8
// then becomes U+FFFD.
type ByteLevel struct{ pretokenizers.ByteLevel }

// DecodeChain returns the whole text as one token.
func (ByteLevel) DecodeChain(tokens []string) []string {
	var text []byte
	for _, t := range tokens {
		var ok bool
		if text, ok = appendBytes(text, t); !ok { // a token that is not of this alphabet is taken as it stands
			text = append(text, t...)
		}
	}
	return []string{lossy(text)}
}

// Bytes returns the bytes that a token stands for, which need not be whole characters. It returns
// false if the token has a character outside the byte-level alphabet.
func (ByteLevel) Bytes(token string) (bytes []byte, ok bool) { return appendBytes(nil, token) }

// appendBytes appends the bytes of a token, or nothing if it is not of this alphabet.
func appendBytes(text []byte, token string) ([]byte, bool) {
	n := len(text)
	for _, r := range token {
		b, ok := normalizers.RuneByte(r)
		if !ok {
			return text[:n], false
		}
		text = append(text, b)
	}
	return text, true
}

// lossy reads bytes as UTF-8 and puts U+FFFD in the place of each part of a character that is
// damaged, the longest part at once, as Rust does.
func lossy(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			n = damaged(text)
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String()
}

// damaged returns how many bytes at the start of the text begin a character that does not continue.
func damaged(text []byte) int {
	c := text[0]
	want, low, high := 0, byte(0x80), byte(0xBF)
	switch {
	case c >= 0xC2 && c <= 0xDF:
		want = 2
	case c >= 0xE0 && c <= 0xEF:
		want = 3
	case c >= 0xF0 && c <= 0xF4:
		want = 4
	}
	switch c {
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	n := 1
	for n < want && n < len(text) && text[n] >= low && text[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}

// Metaspace makes spaces of their visible replacement; one at the start of the text, which the
// pre-tokenizer put there, is left out.
type Metaspace struct{ pretokenizers.Metaspace }

// DecodeChain replaces the character.
func (d Metaspace) DecodeChain(tokens []string) []string {
	for i, t := range tokens {
		space := " "
		if i == 0 && d.PrependScheme != pretokenizers.PrependNever {
			space = ""
		}
		tokens[i] = strings.ReplaceAll(t, string(d.Replacement), space)
	}
	return tokens
}

// BPEDecoder makes spaces of the suffix that ends words.
type BPEDecoder struct {
	Suffix string `json:"suffix"`
}

// DecodeChain replaces the suffix; in the last token it vanishes.
func (d BPEDecoder) DecodeChain(tokens []string) []string {
	for i, t := range tokens {
		if i == len(tokens)-1 {
			tokens[i] = strings.ReplaceAll(t, d.Suffix, "")
		} else {
			tokens[i] = strings.ReplaceAll(t, d.Suffix, " ")
		}
	}
	return tokens
}

// CTC makes a text of a model's best token at each moment: repeated tokens are one, padding
// separates them.
type CTC struct {
	PadToken           string `json:"pad_token"`
	WordDelimiterToken string `json:"word_delimiter_token"` // becomes a space when Cleanup is set
	Cleanup            bool   `json:"cleanup"`
}

// DecodeChain drops repetitions and padding.
func (d CTC) DecodeChain(tokens []string) []string {
	var out []string
	for i, t := range tokens {
		if i > 0 && t == tokens[i-1] {
			continue
		}
		t = strings.ReplaceAll(t, d.PadToken, "")
		if d.Cleanup {
			t = strings.ReplaceAll(cleanup(t), d.WordDelimiterToken, " ")
		}
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}

// Replace replaces in each token.
type Replace struct{ normalizers.Replace }

// DecodeChain replaces.
func (d Replace) DecodeChain(tokens []string) []string {
	for i, t := range tokens {
		tokens[i] = d.Apply(t)
	}
	return tokens
}

// Fuse makes one token of all.
type Fuse struct{}

// DecodeChain joins the tokens.
func (Fuse) DecodeChain(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// Strip removes a character from the ends of each token, so many times at most.
type Strip struct {
	Content string `json:"content"` // one character
	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
}

// DecodeChain strips the tokens.
func (d Strip) DecodeChain(tokens []string) []string {
	for i, t := range tokens {
		for range min(d.Start, len(t)) {
			t = strings.TrimPrefix(t, d.Content)
		}
		for range min(d.Stop, len(t)) {
			t = strings.TrimSuffix(t, d.Content)
		}
		tokens[i] = t
	}
	return tokens
}

// ByteFallback makes characters of tokens such as <0xE2>. Bytes that are no UTF-8 together become
// U+FFFD each.
type ByteFallback struct{}

// Byte returns the byte that a token such as <0xE2> stands for, and whether it is such a token.
func (ByteFallback) Byte(token string) (b byte, ok bool) {
	if len(token) != len("<0xE2>") || !strings.HasPrefix(token, "<0x") || !strings.HasSuffix(token, ">") {
		return 0, false
	}
	n, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(n), err == nil
}

// DecodeChain joins bytes to characters.
func (ByteFallback) DecodeChain(tokens []string) []string {
	var out []string
	var pending []byte
	flush := func() {
		switch {
		case len(pending) == 0:
		case utf8.Valid(pending):
			out = append(out, string(pending))
		default:
			for range pending {
				out = append(out, string(utf8.RuneError))
			}
		}
		pending = pending[:0]
	}
	for _, t := range tokens {
		if b, ok := (ByteFallback{}).Byte(t); ok {
			pending = append(pending, b)
			continue
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

// MarshalJSON writes the piece as tokenizer.json has it; so do the others.
func (q Sequence) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("Sequence", struct {
		Decoders []Decoder `json:"decoders"`
	}{append([]Decoder{}, q...)})
}

// MarshalJSON writes the type and the settings.
func (d WordPiece) MarshalJSON() ([]byte, error) {
	type fields WordPiece
	return tagged.Marshal("WordPiece", fields(d))
}

// MarshalJSON writes the type and the suffix.
func (d BPEDecoder) MarshalJSON() ([]byte, error) {
	type fields BPEDecoder
	return tagged.Marshal("BPEDecoder", fields(d))
}

// MarshalJSON writes the type and the settings.
func (d CTC) MarshalJSON() ([]byte, error) {
	type fields CTC
	return tagged.Marshal("CTC", fields(d))
}

// MarshalJSON writes {"type":"Fuse"}.
func (Fuse) MarshalJSON() ([]byte, error) { return tagged.Marshal("Fuse", struct{}{}) }

// MarshalJSON writes {"type":"ByteFallback"}.
func (ByteFallback) MarshalJSON() ([]byte, error) { return tagged.Marshal("ByteFallback", struct{}{}) }

// MarshalJSON writes the type and the settings.
func (d Strip) MarshalJSON() ([]byte, error) {
	type fields Strip
	return tagged.Marshal("Strip", fields(d))
}
