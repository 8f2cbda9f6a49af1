package text

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// shown is an encoding in tiny.py's output.
type shown struct {
	IDs, TypeIDs       []int64
	Tokens             []string
	Words              []int
	Offsets            [][2]int
	Special, Attention []int64
	Sequences          []int
	Overflowing        []shown
}

func (s *shown) UnmarshalJSON(data []byte) error {
	type plain shown
	var v struct {
		plain
		TypeIDs []int64 `json:"type_ids"`
	}
	err := json.Unmarshal(data, &v)
	*s = shown(v.plain)
	s.TypeIDs = v.TypeIDs
	return err
}

func show(e *Encoding, overflowing bool) shown {
	s := shown{IDs: e.IDs, TypeIDs: e.TypeIDs, Special: e.SpecialTokensMask, Sequences: e.SequenceIDs()}
	for _, o := range e.Offsets {
		s.Offsets = append(s.Offsets, [2]int{o.Start, o.End})
	}
	if overflowing {
		s.Tokens, s.Words, s.Attention = e.Tokens, e.Words, e.AttentionMask
		for _, o := range e.Overflowing {
			s.Overflowing = append(s.Overflowing, show(o, false))
		}
	}
	return s
}

// tinyCase is a recorded result: an encoding or an error.
type tinyCase struct {
	Text, A, B  string
	Words, Pair []string
	Encoding    *shown
	Error       string
	Plain       []int64
	Truncation  *Truncation
	Refused     string
}

type tinyCases struct {
	Texts, Pairs, Words, Truncated []tinyCase
	Decoded                        []struct {
		IDs         []int64
		Text        string
		WithSpecial string `json:"with_special"`
	}
	Tokens []*string
	Padded []struct {
		Padding    *Padding
		Truncation *Truncation
		Texts      []string
		Encodings  []shown
	}
}

func loadTiny(t *testing.T, name string) *Tokenizer {
	t.Helper()
	tok, err := LoadTokenizer("testdata/tiny/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func tiny(t *testing.T) *Tokenizer { return loadTiny(t, "uncased") }

func readTiny(t *testing.T) map[string]tinyCases {
	t.Helper()
	data, err := os.ReadFile("testdata/tiny/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Cases map[string]tinyCases }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f.Cases
}

// check compares the result of a call with the case. If the library panicked or failed, an error is
// correct.
func (c *tinyCase) check(t *testing.T, name string, e *Encoding, err error) {
	t.Helper()
	if c.Encoding == nil {
		if err == nil {
			t.Errorf("%s: no error; the reference fails with %s", name, c.Error)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if d := cmp.Diff(*c.Encoding, show(e, true), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: -reference +here\n%s", name, d)
	}
}

func TestTinyTokenizersDoWhatTheReferenceDoes(t *testing.T) {
	for name, cases := range readTiny(t) {
		t.Run(name, func(t *testing.T) {
			tok := loadTiny(t, name)
			for _, c := range cases.Texts {
				e, err := tok.Encode(c.Text, nil)
				c.check(t, "Encode "+c.Text, e, err)
				if err == nil {
					checkIDs(t, tok, Single(c.Text), e)
				}
				e, err = tok.Encode(c.Text, &EncodeOptions{NoSpecialTokens: true})
				if err != nil && c.Error == "" || err == nil && !cmp.Equal(e.IDs, c.Plain, cmpopts.EquateEmpty()) {
					t.Errorf("Encode(%q) without special tokens = %v, %v, want %v", c.Text, e, err, c.Plain)
				}
			}
			for _, c := range cases.Pairs {
				e, err := tok.EncodePair(c.A, c.B, nil)
				c.check(t, "EncodePair "+c.A+" | "+c.B, e, err)
			}
			for _, c := range cases.Words {
				e, err := tok.EncodeInput(Input{Words: c.Words, PairWords: c.Pair, IsPair: c.Pair != nil}, nil)
				c.check(t, "words", e, err)
			}
			for _, c := range cases.Decoded {
				if got := tok.Decode(c.IDs, nil); got != c.Text {
					t.Errorf("Decode(%v) = %q, want %q", c.IDs, got, c.Text)
				}
				if got := tok.Decode(c.IDs, &DecodeOptions{KeepSpecialTokens: true}); got != c.WithSpecial {
					t.Errorf("Decode(%v) with special tokens = %q, want %q", c.IDs, got, c.WithSpecial)
				}
			}
			if got := tok.VocabSize() + 2; got != len(cases.Tokens) {
				t.Errorf("VocabSize() = %d, want %d", got-2, len(cases.Tokens)-2)
			}
			for id, want := range cases.Tokens {
				got, ok := tok.IDToToken(int64(id))
				if ok != (want != nil) || ok && got != *want {
					t.Errorf("IDToToken(%d) = %q, %v", id, got, ok)
				}
			}
			for _, c := range cases.Truncated {
				checkTruncated(t, tok, c)
			}
			for _, c := range cases.Padded {
				tok, err := tok.WithPadding(c.Padding)
				if err != nil {
					t.Fatal(err)
				}
				if tok, err = tok.WithTruncation(c.Truncation); err != nil {
					t.Fatal(err)
				}
				batch, err := tok.EncodeBatch(context.Background(), Texts(c.Texts...), nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, e := range batch {
					if d := cmp.Diff(c.Encodings[i], show(e, true), cmpopts.EquateEmpty()); d != "" {
						t.Errorf("padding %+v of %q: -reference +here\n%s", *c.Padding, c.Texts, d)
					}
				}
			}
		})
	}
}

func checkTruncated(t *testing.T, tok *Tokenizer, c tinyCase) {
	t.Helper()
	if c.Refused != "" {
		return
	}
	tok, err := tok.WithTruncation(c.Truncation)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Text: c.A, Pair: c.B, IsPair: c.B != ""}
	e, err := tok.EncodeInput(in, nil)
	settings, _ := json.Marshal(c.Truncation)
	c.check(t, "truncation "+string(settings)+" of "+c.A+" | "+c.B, e, err)
	if err == nil {
		checkIDs(t, tok, in, e)
		return
	}
	if ids, err := tok.AppendIDs(nil, in, nil); err == nil {
		t.Errorf("AppendIDs(%+v) with truncation %s = %v; EncodeInput fails", in, settings, ids)
	}
}

// checkIDs compares the result of IDs with the whole encoding.
func checkIDs(t *testing.T, tok *Tokenizer, in Input, e *Encoding) {
	t.Helper()
	ids, err := tok.AppendIDs([]int64{-7}, in, nil)
	if err != nil || !cmp.Equal(ids, append([]int64{-7}, e.IDs...)) {
		t.Errorf("AppendIDs(-7, %+v) = %v, %v; the encoding has %v", in, ids, err, e.IDs)
	}
}

func TestTokenizersAreWrittenAsTheyWereRead(t *testing.T) {
	for name := range readTiny(t) {
		tok := loadTiny(t, name)
		dir := t.TempDir()
		if err := tok.Save(dir); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("testdata/tiny/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(dir + "/tokenizer.json")
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal(want, &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s: -read +written\n%s", name, d)
		}
	}
}

func TestTinyTokenizersEncodeRandomTextsAsTheReference(t *testing.T) {
	data, err := os.ReadFile("testdata/tiny/random.json")
	if err != nil {
		t.Fatal(err)
	}
	var sums map[string][]string
	if err := json.Unmarshal(data, &sums); err != nil {
		t.Fatal(err)
	}
	if len(sums) < 10 {
		t.Fatalf("sums of %d tokenizers only", len(sums))
	}
	for name, want := range sums {
		tok := loadTiny(t, name)
		compare(t, name, randomTexts(3000, 77), 500, want, func(text string) []byte {
			e, err := tok.Encode(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			return encodingBytes(e)
		})
	}
}
