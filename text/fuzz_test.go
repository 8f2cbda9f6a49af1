package text

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/models"
)

// FuzzParseTokenizer reads damaged tokenizer.json files; accepted ones must encode and decode
// without a panic, with spans within the text.
func FuzzParseTokenizer(f *testing.F) {
	files, err := filepath.Glob("testdata/tiny/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && filepath.Base(file) != "cases.json" &&
			filepath.Base(file) != "random.json" {
			f.Add(data)
		}
	}
	f.Add([]byte(`{"version":"1.0","model":{"type":"Unigram","unk_id":0,"vocab":[["",0],["a",-1]]},"decoder":{"type":"Strip","content":"a","start":9,"stop":9}}`))
	f.Add([]byte(`{"model":{"type":"WordLevel","unk_token":"","vocab":{"":4294967295}},"padding":{"strategy":{"Fixed":1048577}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := ParseTokenizer(data)
		if err != nil {
			return
		}
		if p := tok.config.Padding; p != nil && p.Length+p.MultipleOf > 1000 {
			tok.config.Padding = nil // valid, but slow
		}
		for _, text := range []string{"", "a", "The quick\tbrown [MASK]. ۱۲ب ½e\u0301\u0323 don't", "\xff\xfe",
			strings.Repeat("ab ", 40)} {
			e, err := tok.EncodePair(text, "b", nil)
			if err != nil {
				continue
			}
			for i, s := range e.ByteOffsets {
				if s.Start < 0 || s.End > max(len(text), 1) || s.Start > s.End && s.End != 0 {
					t.Fatalf("%q: token %d has the bytes %v of %d", text, i, s, len(text))
				}
			}
			tok.Decode(e.IDs, nil)
		}
		if _, err := tok.MarshalJSON(); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}

// FuzzEncode compares the fast path, which computes only ids, with the full one.
func FuzzEncode(f *testing.F) {
	for _, s := range append(randomTexts(20, 5), "\xff", "a\xc3", "[MASK]\xffb") {
		f.Add(s)
	}
	tok, err := LoadTokenizer("testdata/tiny/uncased.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := tok.Encode(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		long, err := tok.tokenizeAny(text, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if e.Len() != long.Len()+2 {
			t.Fatalf("%q: %d tokens by the short way, %d by the long way", text, e.Len()-2, long.Len())
		}
		for i, id := range long.IDs {
			if e.IDs[i+1] != id || e.Offsets[i+1] != long.Offsets[i] || e.ByteOffsets[i+1] != long.ByteOffsets[i] {
				t.Fatalf("%q: token %d is %d %v %v, by the long way %d %v %v", text, i, e.IDs[i+1], e.Offsets[i+1],
					e.ByteOffsets[i+1], id, long.Offsets[i], long.ByteOffsets[i])
			}
		}
		checkIDs(t, tok, Single(text), e)
	})
}

// FuzzReadVocab reads damaged vocab.txt files.
func FuzzReadVocab(f *testing.F) {
	f.Add("[PAD]\n[UNK]\na\n##b\n\n a \r\n")
	f.Fuzz(func(t *testing.T, data string) {
		vocab, err := models.ReadVocab(strings.NewReader(data))
		if err != nil {
			if utf8.ValidString(data) {
				t.Fatal(err)
			}
			return
		}
		if tok, err := NewBert(vocab, BertOptions{}); err == nil {
			if _, err := tok.Encode("ab a", nil); err != nil && !strings.Contains(err.Error(), "unknown token") {
				t.Fatal(err)
			}
		}
	})
}
