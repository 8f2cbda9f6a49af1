package decoders

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// Decoder changes tokens so that the text is their concatenation. It must be safe to use from
// several goroutines.
type Decoder interface {
	// DecodeChain returns the changed tokens; it may use the slice it was given.
	DecodeChain(tokens []string) []string
}

// Decode returns the text of tokens. If d is nil, it joins them with spaces.
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
	Cleanup bool   `json:"cleanup"` // remove spaces before punctuation and English contractions
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

// cleanup makes the replacements in this order, each on the result of the one before.
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

// ByteLevel turns the printable characters of byte-level vocabularies back into bytes. Bytes that
// are not UTF-8 become U+FFFD.
type ByteLevel struct{ pretokenizers.ByteLevel }

// DecodeChain returns the whole text as one token.
func (ByteLevel) DecodeChain(tokens []string) []string {
	var text []byte
	for _, t := range tokens {
		var ok bool
		if text, ok = appendBytes(text, t); !ok { // a token outside the alphabet is used unchanged
			text = append(text, t...)
		}
	}
	return []string{lossy(text)}
}

// Bytes returns the bytes that a token stands for, which need not be whole characters. It returns
// false if the token has a character outside the byte-level alphabet.
func (ByteLevel) Bytes(token string) (bytes []byte, ok bool) { return appendBytes(nil, token) }

// appendBytes appends the bytes of a token, or nothing if it has a character outside the byte-level
// alphabet.
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

// lossy decodes bytes as UTF-8 and replaces each maximal part of an invalid sequence by one U+FFFD,
// as Rust's from_utf8_lossy does.
func lossy(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			n = invalidPrefix(text)
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String()
}

// invalidPrefix returns the length of the invalid sequence at the start of text: the longest part
// that could begin a character.
func invalidPrefix(text []byte) int {
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

// Metaspace turns the visible replacement of spaces back into spaces. The one at the start of the
// text, which the pre-tokenizer added, is removed.
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

// BPEDecoder replaces the suffix that ends words by a space.
type BPEDecoder struct {
	Suffix string `json:"suffix"`
}

// DecodeChain replaces the suffix, and removes it from the last token.
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

// CTC decodes a model's best token at each time step: repeated tokens are collapsed into one, and
// padding separates tokens.
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

// Replace replaces the matches of a pattern in each token.
type Replace struct{ normalizers.Replace }

// DecodeChain replaces.
func (d Replace) DecodeChain(tokens []string) []string {
	for i, t := range tokens {
		tokens[i] = d.Apply(t)
	}
	return tokens
}

// Fuse joins all tokens into one.
type Fuse struct{}

// DecodeChain joins the tokens.
func (Fuse) DecodeChain(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// Strip removes a character from the ends of each token, at most Start and Stop times.
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

// ByteFallback turns tokens such as <0xE2> into characters. If consecutive bytes are not valid
// UTF-8 together, each becomes U+FFFD.
type ByteFallback struct{}

// Byte returns the byte that a token such as <0xE2> stands for, and whether it is such a token.
func (ByteFallback) Byte(token string) (b byte, ok bool) {
	if len(token) != len("<0xE2>") || !strings.HasPrefix(token, "<0x") || !strings.HasSuffix(token, ">") {
		return 0, false
	}
	n, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(n), err == nil
}

// DecodeChain joins bytes into characters.
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

// MarshalJSON writes the decoder as it is in tokenizer.json.
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
