package text

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
)

func TestFilesThatAreRefusedSayWhy(t *testing.T) {
	const model = `"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}`
	for _, c := range []struct{ claim, content, want string }{
		{"no JSON", `{`, "unexpected end"},
		{"another version", `{"version":"2.0",` + model + `}`, `"2.0"`},
		{"no model", `{"version":"1.0"}`, "no model"},
		{"an unknown model", `{"model":{"type":"Magic"}}`, `"Magic"`},
		{"an unknown normalizer", `{"normalizer":{"type":"Shout"},` + model + `}`, "normalizer Shout"},
		{"an unknown pre-tokenizer", `{"pre_tokenizer":{"type":"Shout"},` + model + `}`, "pre-tokenizer Shout"},
		{"an unknown post-processor", `{"post_processor":{"type":"X"},` + model + `}`, "post-processor X"},
		{"an unknown decoder", `{"decoder":{"type":"X"},` + model + `}`, "decoder X"},
		{"a group that calls itself",
			`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a\\g<1>?b)"},"behavior":"Isolated","invert":false},` +
				model + `}`, "calls its own group"},
		{"a word boundary, which Go has of ASCII only",
			`{"normalizer":{"type":"Replace","pattern":{"Regex":"\\bé"},"content":""},` + model + `}`, "word boundary"},
		{"a range up to a class", `{"normalizer":{"type":"Replace","pattern":{"Regex":"[+-\\w]"},"content":""},` +
			model + `}`, "range up to a class"},
		{"a reference to a group that there is not",
			`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a)\\2"},"behavior":"Isolated","invert":false},` +
				model + `}`, `undefined group`},
		{"a possessive repetition",
			`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a++"},"behavior":"Isolated","invert":false},` +
				model + `}`, "possessive"},
		{"a template with an unknown token",
			`{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"X","type_id":0}}],"pair":[],"special_tokens":{}},` + model + `}`, `"X"`},
		{"an id that is too large", `{"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":4294967296}}}`,
			"4294967296"},
		{"a merge of tokens that are not there", `{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","a"]]}}`,
			"merge 0"},
		{"dropout", `{"model":{"type":"BPE","dropout":0.1,"vocab":{},"merges":[]}}`, "dropout"},
		{"a missing field", `{"model":{"type":"WordPiece","vocab":{}}}`, `"unk_token"`},
		{"padding without end", `{"padding":{"strategy":{"Fixed":99999999}},` + model + `}`, "99999999"},
		{"a stride as long as the text",
			`{"truncation":{"max_length":4,"strategy":"LongestFirst","stride":5,"direction":"Right"},` + model + `}`,
			"stride"},
		{"truncation to no length", `{"truncation":{"strategy":"LongestFirst","stride":0,"direction":"Left"},` + model + `}`,
			`"max_length"`},
		{"sequences within sequences", `{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`,
			20) + strings.Repeat("]}", 20) + `,` + model + `}`, "deep"},
	} {
		if _, err := ParseTokenizer([]byte(c.content)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.claim, err, c.want)
		}
	}
}

// Twenty-five doublings turn one letter into 32 MiB, and a page into 100 GiB.
func TestReplacementsThatGrowWithoutBoundAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("texts of megabytes take ten seconds under the race detector")
	}
	doublings := func(n int) string {
		return `{"normalizer":{"type":"Sequence","normalizers":[` +
			strings.TrimSuffix(strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, n), ",") +
			`]},"model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"aaaa":1}}`
	}
	few, err := ParseTokenizer([]byte(doublings(2) + "}"))
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := few.AppendIDs(nil, Input{Text: "a"}, nil); err != nil || len(ids) != 1 || ids[0] != 1 {
		t.Errorf("two doublings: ids %v, %v; want that of aaaa", ids, err)
	}
	many, err := ParseTokenizer([]byte(doublings(25) + "}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := many.Encode("bcd", nil); err != nil {
		t.Errorf("a text without a match: %v", err)
	}
	for _, text := range []string{"a", "bab", strings.Repeat("a", 1000)} {
		_, err := many.Encode(text, nil)
		if !errors.Is(err, normalizers.ErrGrown) || !strings.Contains(err.Error(), "mend the normalizers") {
			t.Errorf("25 doublings of %.5q: %v, want ErrGrown", text, err)
		}
		if _, err := many.AppendIDs(nil, Input{Text: text}, nil); !errors.Is(err, normalizers.ErrGrown) {
			t.Errorf("ids of 25 doublings of %.5q: %v, want ErrGrown", text, err)
		}
	}
	added := `,"added_tokens":[{"id":2,"content":"[a]","normalized":true,"special":false,"lstrip":false,"rstrip":false,"single_word":false}]}`
	if _, err := ParseTokenizer([]byte(doublings(25) + added)); !errors.Is(err, normalizers.ErrGrown) ||
		!strings.Contains(err.Error(), `"[a]"`) {
		t.Errorf("an added token that grows: %v, want ErrGrown and its name", err)
	}
}

// Every time bytes are spelled, a non-ASCII character becomes two characters of two bytes each.
func TestBytesThatAreSpelledAgainAndAgainAreRefused(t *testing.T) {
	spelled := strings.TrimSuffix(strings.Repeat(`{"type":"ByteLevel"},`, 40), ",")
	for _, pieces := range []string{
		`"normalizer":{"type":"Sequence","normalizers":[` + spelled + `]}`,
		`"normalizer":{"type":"Sequence","normalizers":[` + spelled +
			`,{"type":"Strip","strip_left":true,"strip_right":true}]}`,
		`"pre_tokenizer":{"type":"Sequence","pretokenizers":[` + strings.ReplaceAll(spelled, `{"type":"ByteLevel"}`,
			`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}`) + `]}`,
	} {
		tok, err := ParseTokenizer([]byte(`{` + pieces + `,"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tok.Encode("é", nil); !errors.Is(err, normalizers.ErrGrown) {
			t.Errorf("%.60s: %v, want ErrGrown", pieces, err)
		}
	}
}

// A token that strips the white space after it, followed by white space that is itself a token.
func TestAddedTokensThatWantTheSameSpace(t *testing.T) {
	tok, err := ParseTokenizer([]byte(`{"model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"x":1}},
		"added_tokens":[
		{"id":2,"content":"<|end|>","normalized":false,"special":false,"lstrip":false,"rstrip":true,"single_word":false},
		{"id":3,"content":"\n","normalized":false,"special":false,"lstrip":false,"rstrip":false,"single_word":false}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int64{
		"<|end|>\n\nx": {2, 3, 3, 1}, // as tokenizers 0.23
		"<|end|>\nx":   {2, 3, 1},
	} {
		e, err := tok.Encode(text, nil)
		if err != nil || !slices.Equal(e.IDs, want) {
			t.Errorf("%q: %v, %v; want %v", text, e, err, want)
		}
	}
}

// The bytes of a suffix are tokens too, but correspond to no part of the text.
func TestTokensOfTheBytesOfASuffixEndWithTheText(t *testing.T) {
	var vocab strings.Builder
	for i := range 256 {
		fmt.Fprintf(&vocab, `"<0x%02X>":%d,`, i, i)
	}
	tok, err := ParseTokenizer([]byte(`{"model":{"type":"BPE","byte_fallback":true,"end_of_word_suffix":"</w>","vocab":{` +
		strings.TrimSuffix(vocab.String(), ",") + `},"merges":[]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"é", "a"} {
		e, err := tok.Encode(text, nil)
		if err != nil || len(e.Offsets) != len(text)+len("</w>") {
			t.Fatalf("%q: %v, %v", text, e, err)
		}
		for _, o := range e.Offsets {
			if o.End > 1 {
				t.Errorf("%q: a token ends at character %d", text, o.End)
			}
		}
	}
}

func TestFoldersOfModels(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadTokenizer(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "vocab.txt") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := LoadTokenizer(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nÉ\né\ne\n##E\n博\n")
	encode := func() string {
		tok, err := LoadTokenizer(dir)
		if err != nil {
			t.Fatal(err)
		}
		e, err := tok.Encode("É ÉE<x>博博", nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(e.Tokens, " ")
	}
	if got := encode(); got != "[CLS] e [UNK] [UNK] [UNK] [UNK] 博 博 [SEP]" {
		t.Errorf("uncased: %s", got)
	}
	write("tokenizer_config.json",
		`{"tokenizer_class":"BertTokenizerFast","do_lower_case":false,"tokenize_chinese_chars":false,"cls_token":{"content":"[PAD]"},"added_tokens_decoder":{"10":{"content":"<x>","special":true}}}`)
	if got := encode(); got != "[PAD] É É ##E <x> [UNK] [SEP]" {
		t.Errorf("with tokenizer_config.json: %s", got)
	}
	write("tokenizer_config.json", `{"tokenizer_class":"BertJapaneseTokenizer"}`)
	if _, err := LoadTokenizer(dir); err == nil || !strings.Contains(err.Error(), "BertJapaneseTokenizer") {
		t.Errorf("a class that needs more than vocab.txt: %v", err)
	}
}

// Expected values are those of transformers 5.17's BertTokenizer for the same folders.
func TestFoldersWithFurtherSpecialTokens(t *testing.T) {
	const vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n<mask>\na\nx\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		text  string
		want  []int64
	}{
		{"extra_special_tokens", map[string]string{
			"tokenizer_config.json": `{"extra_special_tokens":["QQ","ZZ"],"mask_token":"<mask>"}`,
		}, "a QQ ZZa", []int64{2, 5, 7, 8, 5, 3}},
		{"extra_special_tokens by name", map[string]string{
			"tokenizer_config.json": `{"extra_special_tokens":{"q_token":"QQ"},"mask_token":"<mask>"}`,
		}, "a QQ", []int64{2, 5, 7, 3}},
		{"named tokens come before extra ones", map[string]string{
			"tokenizer_config.json": `{"extra_special_tokens":["QQ"],"additional_special_tokens":["a"],"mask_token":"[M]"}`,
		}, "QQ [M] a", []int64{2, 8, 7, 5, 3}},
		{"special_tokens_map.json", map[string]string{
			"tokenizer_config.json":   `{"mask_token":"[MASK]"}`,
			"special_tokens_map.json": `{"mask_token":{"content":"<mask>","lstrip":true}}`,
		}, "a <mask>", []int64{2, 5, 4, 3}},
		{"added_tokens.json", map[string]string{
			"special_tokens_map.json": `{"mask_token":"<mask>","additional_special_tokens":["QQ"]}`,
			"added_tokens.json":       `{"Late":8,"QQ":7}`,
		}, "QQ late x", []int64{2, 7, 8, 6, 3}},
		{"added_tokens_decoder is all there is", map[string]string{
			"tokenizer_config.json":   `{"added_tokens_decoder":{"7":{"content":"QQ","special":true}},"mask_token":"<mask>"}`,
			"special_tokens_map.json": `{"mask_token":"x"}`,
			"added_tokens.json":       `{"Late":7}`,
		}, "QQ late <mask>", []int64{2, 7, 1, 4, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(vocab), 0o666))
			for name, content := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
			}
			tok, err := LoadTokenizer(dir)
			require.NoError(t, err)
			e, err := tok.Encode(c.text, nil)
			require.NoError(t, err)
			assert.Equal(t, c.want, e.IDs)
		})
	}
}

func TestErrorsOfEncoding(t *testing.T) {
	m, err := models.NewWordPiece(map[string]int64{"a": 0}, models.WordPieceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(Config{Model: m})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode("b", nil); !errors.Is(err, models.ErrMissingUnknown) {
		t.Errorf("a vocabulary without unknown token: %v", err)
	}
	if _, err := tok.EncodeBatch(context.Background(), Texts("a", "b"), nil); err == nil ||
		!strings.Contains(err.Error(), "input 1") {
		t.Errorf("a batch names the input that fails: %v", err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tok.IDsBatch(cancelled, Texts("a"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled batch: %v", err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a tokenizer without a model was made")
	}
	second, err := tok.WithTruncation(&Truncation{MaxLength: 1, Strategy: OnlySecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.AppendIDs(nil, Single("aa"), nil); err == nil {
		t.Error("truncation of a second text that is not there gave ids")
	}
	if _, err := tiny(t).WithTruncation(&Truncation{MaxLength: 1}); err == nil {
		t.Error("truncation below the special tokens was accepted")
	}
	if _, err := tiny(t).WithTruncation(&Truncation{MaxLength: 4, Stride: 3}); !errors.Is(err, encodings.ErrStride) {
		t.Errorf("a stride that is too long: %v", err)
	}
}

func TestBatchesAreTheSingleEncodingsWhateverTheGoroutines(t *testing.T) {
	tok := tiny(t)
	texts := randomTexts(100, 9)
	for _, n := range []int{0, 1, 7} {
		ids, err := tok.IDsBatch(context.Background(), Texts(texts...), &EncodeOptions{Goroutines: n})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range texts {
			e, err := tok.Encode(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(ids[i]) != e.Len() {
				t.Fatalf("%d goroutines: text %d has %d ids, want %d", n, i, len(ids[i]), e.Len())
			}
		}
	}
}

func TestTokensAreFoundByCharacterAndWord(t *testing.T) {
	e, err := tiny(t).EncodePair("the dog", "é token", nil)
	if err != nil {
		t.Fatal(err)
	}
	i, ok := e.CharToToken(4, 0)
	if !ok || e.Offsets[i].Start != 4 || e.SequenceIDs()[i] != 0 {
		t.Errorf("CharToToken(4, 0) = %d, %v", i, ok)
	}
	if _, ok := e.CharToToken(3, 0); ok {
		t.Error("a space has a token")
	}
	span, ok := e.WordToTokens(1, 1)
	if !ok || e.ByteOffsets[span.Start].Start != 3 || e.Offsets[span.Start].Start != 2 {
		t.Errorf("WordToTokens(1, 1) = %v, %v: bytes %v, characters %v", span, ok, e.ByteOffsets, e.Offsets)
	}
	if _, ok := e.WordToTokens(9, 0); ok {
		t.Error("a word that is not there has tokens")
	}
}

// As in tokenizers 0.23.3, nothing is prepended to a text after a character that normalization
// removed.
func TestFirstPieceBehindWhatNormalizationTook(t *testing.T) {
	tok, err := ParseTokenizer([]byte(`{"normalizer":{"type":"Strip","strip_left":true,"strip_right":false},
		"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":false},
		"model":{"type":"WordLevel","vocab":{"_hi":0,"hi":1,"?":2},"unk_token":"?"}}`))
	require.NoError(t, err)
	for text, want := range map[string]int64{"hi": 0, " hi": 1} {
		e, err := tok.Encode(text, nil)
		require.NoError(t, err)
		assert.Equal(t, []int64{want}, e.IDs, "%q", text)
	}
}
