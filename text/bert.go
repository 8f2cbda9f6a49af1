package text

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/internal/ucd"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// bertPath is the fast path for BERT's pipeline of BertNormalizer, BertPreTokenizer and WordPiece:
// a single pass over the text, without intermediate strings. It looks up each character once, to
// find out what it is normalized to and whether it ends a word. The rare texts in which this
// depends on neighboring characters (a combining mark that is kept and may be reordered), and bytes
// that are not UTF-8, take the general path, tokenizeAny.
type bertPath struct {
	normalizer normalizers.BertNormalizer
	model      *models.WordPiece
	ascii      [utf8.RuneSelf]fold
	pages      [(utf8.MaxRune + 1) >> 8]atomic.Pointer[[256]fold] // filled as texts need them
	scratch    sync.Pool                                          // of *bertScratch
}

// fold is what a character is normalized to.
type fold struct {
	kind foldKind
	n    uint8
	out  [14]byte // the n bytes that it adds to the word
}

type foldKind uint8

const (
	foldWord  foldKind = iota // part of a word
	foldSpace                 // ends a word
	foldDrop                  // is removed
	foldAlone                 // a word by itself
	foldHard                  // depends on its neighbors: general path
)

// newBertPath returns nil if the pipeline is not BERT's.
func newBertPath(c Config, added *addedVocabulary) *bertPath {
	n, ok := c.Normalizer.(normalizers.BertNormalizer)
	if _, bert := c.PreTokenizer.(pretokenizers.BertPreTokenizer); !ok || !bert || added.cleaned.trie != nil {
		return nil
	}
	m, ok := c.Model.(*models.WordPiece)
	if !ok {
		return nil
	}
	b := &bertPath{normalizer: n, model: m}
	for r := range b.ascii {
		b.ascii[r] = b.fold(rune(r))
	}
	b.scratch.New = func() any { return new(bertScratch) }
	return b
}

// fold computes the fold of a character.
func (b *bertPath) fold(r rune) fold {
	table := ucd.Load()
	props := table.Of(r)
	if b.normalizer.CleanText && props.Is(ucd.Control) {
		return fold{kind: foldDrop}
	}
	if props.Is(ucd.Space) {
		return fold{kind: foldSpace}
	}
	letters, ok := b.letters(r)
	is := func(p ucd.Props) bool {
		return slices.ContainsFunc(letters, func(c rune) bool { return table.Of(c).Is(p) })
	}
	chinese := b.normalizer.HandleChineseChars && normalizers.ChineseChar(r)
	alone := is(ucd.Punctuation)
	out := string(letters)
	f := fold{kind: foldWord}
	switch {
	case !ok || is(ucd.Space) || len(out) > len(f.out) || alone && len(letters) > 1:
		return fold{kind: foldHard}
	case len(letters) == 0 && chinese: // the spaces around it end the word
		return fold{kind: foldSpace}
	case len(letters) == 0:
		return fold{kind: foldDrop}
	case alone || chinese:
		f.kind = foldAlone
	}
	f.n = uint8(copy(f.out[:], out))
	return f
}

// letters returns what the normalizer makes of a character: without accents and in lower case, if
// it is set so. It returns false if that depends on neighboring characters.
func (b *bertPath) letters(r rune) (letters []rune, ok bool) {
	parts := string(r)
	accents := b.normalizer.AccentsStripped()
	if accents {
		if d, ok := ucd.Decompose(r, false); ok {
			parts = d
		}
	}
	for _, c := range parts {
		p := ucd.Load().Of(c)
		if accents && p.Is(ucd.MarkNonspacing) {
			continue
		}
		if accents && p.CombiningClass() != 0 {
			return nil, false
		}
		small, ok := "", false
		if b.normalizer.Lowercase {
			small, ok = ucd.Lower(c)
		}
		if !ok {
			small = string(c)
		}
		letters = append(letters, []rune(small)...)
	}
	return letters, true
}

// at returns the fold of a character outside ASCII.
func (b *bertPath) at(r rune) *fold {
	slot := &b.pages[r>>8]
	page := slot.Load()
	if page == nil {
		page = new([256]fold)
		for i := range page {
			page[i] = b.fold(r&^0xff | rune(i))
		}
		slot.Store(page) // concurrent goroutines store equal pages
	}
	return &page[r&0xff]
}

// bertScratch holds the buffers of one pass.
type bertScratch struct {
	word   []byte
	from   []source // of each byte of the word; only filled if spans are needed
	pieces []models.Piece
}

// source locates the character that a byte of a word comes from.
type source struct {
	byte, char int32
	n          uint8
}

// bertScan is a pass over a text, or over the text between two added tokens.
type bertScan struct {
	*bertPath
	*bertScratch
	text      string
	pos, char int // the next byte and its character
	spans     bool
}

// next puts the next word into s.word, which is empty at the end of the text. It returns false if
// the text must take the general path.
func (s *bertScan) next() bool {
	word := s.word[:0]
	s.from = s.from[:0]
	text, pos := s.text, s.pos
scan:
	for pos < len(text) {
		c := text[pos]
		f, n := &s.ascii[c&0x7f], 1
		if c >= utf8.RuneSelf {
			var r rune
			r, n = utf8.DecodeRuneInString(text[pos:])
			if r == utf8.RuneError && n == 1 {
				return false
			}
			f = s.at(r)
		}
		switch f.kind {
		case foldWord:
			if s.spans {
				s.mark(f, pos, n)
			}
			if f.n == 1 {
				word = append(word, f.out[0])
			} else {
				word = append(word, f.out[:f.n]...)
			}
		case foldSpace:
			if len(word) > 0 {
				pos, s.char = pos+n, s.char+1
				break scan
			}
		case foldAlone:
			if len(word) == 0 {
				if s.spans {
					s.mark(f, pos, n)
				}
				word = append(word, f.out[:f.n]...)
				pos, s.char = pos+n, s.char+1
			}
			break scan
		case foldHard:
			return false
		}
		pos, s.char = pos+n, s.char+1
	}
	s.word, s.pos = word, pos
	return true
}

// mark records that the bytes of f come from the character of n bytes at pos.
func (s *bertScan) mark(f *fold, pos, n int) {
	for range f.n {
		s.from = append(s.from, source{int32(pos), int32(s.char), uint8(n)})
	}
}

// encode tokenizes a text into a complete [Encoding]. It returns nil, nil if the text must take the
// general path.
func (b *bertPath) encode(added *addedVocabulary, text string, typeID int64, word, spare int) (*Encoding, error) {
	if len(text) > math.MaxInt32 {
		return nil, nil
	}
	scan := bertScan{bertPath: b, bertScratch: b.scratch.Get().(*bertScratch), spans: true}
	defer b.scratch.Put(scan.bertScratch)
	e := encodings.New(len(text)/4 + 4 + spare)
	words := 0
	number := func() int {
		if word >= 0 {
			return word
		}
		return words
	}
	pass := func(start, end int) (bool, error) {
		scan.text, scan.pos = text[:end], start
		for {
			if !scan.next() {
				return false, nil
			}
			if len(scan.word) == 0 {
				return true, nil
			}
			scan.pieces = b.model.Pieces(scan.pieces[:0], scan.word)
			start := int32(0)
			for _, p := range scan.pieces {
				id, token := b.model.At(p)
				if id < 0 {
					return false, b.model.Missing()
				}
				first, last := scan.from[start], scan.from[p.End-1]
				e.Append(id, typeID, token, number(), Span{Start: int(first.char), End: int(last.char) + 1},
					Span{Start: int(first.byte), End: int(last.byte) + int(last.n)})
				start = p.End
			}
			words++
		}
	}
	parts := added.split(&added.raw, text)
	if parts == nil {
		if ok, err := pass(0, len(text)); !ok {
			return nil, err
		}
		return e, nil
	}
	for _, f := range parts {
		if f.id < 0 {
			if ok, err := pass(f.start, f.end); !ok {
				return nil, err
			}
			continue
		}
		token := text[f.start:f.end]
		if !utf8.ValidString(token) {
			return nil, nil
		}
		chars := utf8.RuneCountInString(token)
		e.Append(f.id, typeID, token, number(), Span{Start: scan.char, End: scan.char + chars},
			Span{Start: f.start, End: f.end})
		scan.char += chars
		words++
	}
	return e, nil
}

// appendIDs appends the ids of a text, at most limit of them unless limit is negative. It returns
// false if the text must take the general path.
func (b *bertPath) appendIDs(dst []int64, added *addedVocabulary, text string, limit int) ([]int64, bool, error) {
	scan := bertScan{bertPath: b, bertScratch: b.scratch.Get().(*bertScratch)}
	defer b.scratch.Put(scan.bertScratch)
	begin := len(dst)
	pass := func(start, end int) (bool, error) {
		scan.text, scan.pos = text[:end], start
		for limit < 0 || len(dst)-begin < limit {
			if !scan.next() {
				return false, nil
			}
			if len(scan.word) == 0 {
				break
			}
			scan.pieces = b.model.Pieces(scan.pieces[:0], scan.word)
			for _, p := range scan.pieces {
				id, _ := b.model.At(p)
				if id < 0 {
					return false, b.model.Missing()
				}
				dst = append(dst, id)
			}
		}
		return true, nil
	}
	parts := added.split(&added.raw, text)
	if parts == nil {
		parts = []segment{{0, len(text), -1}}
	}
	for _, f := range parts {
		if f.id >= 0 {
			dst = append(dst, f.id)
		} else if ok, err := pass(f.start, f.end); !ok {
			return dst[:begin], false, err
		}
	}
	if limit >= 0 && len(dst)-begin > limit {
		dst = dst[:begin+limit]
	}
	return dst, true, nil
}
