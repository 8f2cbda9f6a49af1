package text_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text"
)

// TestCTCTokenizersAreTransformers compares ids, texts and frames with those of transformers,
// before and after saving.
func TestCTCTokenizersAreTransformers(t *testing.T) {
	content, err := os.ReadFile("testdata/ctc.json")
	require.NoError(t, err)
	type span = [3]any
	var f struct {
		Tokenizers []struct {
			Size  int
			Files map[string]json.RawMessage
			Texts []struct {
				Text, Labels string
				IDs          []int64
			}
			Frames []struct {
				IDs            []int64
				Text           string
				Letters, Words []span
			}
		}
	}
	require.NoError(t, json.Unmarshal(content, &f))
	spans := func(list []text.CTCSpan) (all []span) {
		for _, s := range list {
			all = append(all, span{s.Text, float64(s.Start), float64(s.End)})
		}
		return all
	}
	for i, c := range f.Tokenizers {
		dir, again := t.TempDir(), t.TempDir()
		for name, file := range c.Files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), file, 0o600))
		}
		loaded, err := text.LoadCTCTokenizer(dir)
		require.NoError(t, err)
		require.NoError(t, loaded.Save(again))
		saved, err := text.LoadCTCTokenizer(again)
		require.NoError(t, err)
		assert.Equal(t, loaded.Options(), saved.Options())
		var vocab map[string]int64
		require.NoError(t, json.Unmarshal(c.Files["vocab.json"], &vocab))
		made, err := text.NewCTCTokenizer(vocab, loaded.Options())
		require.NoError(t, err)
		for name, tok := range map[string]*text.CTCTokenizer{"loaded": loaded, "saved": saved, "made": made} {
			assert.Equal(t, c.Size, tok.VocabSize(), "%d, %s", i, name)
			for _, want := range c.Texts {
				ids := tok.Encode(want.Text)
				assert.Equal(t, want.IDs, append([]int64{}, ids...), "%d, %s: %q", i, name, want.Text)
				assert.Equal(t, want.Labels, tok.DecodeLabels(ids), "%d, %s: %q", i, name, want.Text)
			}
			for _, want := range c.Frames {
				assert.Equal(t, want.Text, tok.Decode(want.IDs), "%d, %s", i, name)
				assert.Equal(t, want.Letters, spans(tok.Letters(want.IDs)), "%d, %s", i, name)
				assert.Equal(t, want.Words, spans(tok.Words(want.IDs)), "%d, %s", i, name)
			}
		}
		file, err := os.ReadFile(filepath.Join(again, "vocab.json"))
		require.NoError(t, err)
		assert.JSONEq(t, string(c.Files["vocab.json"]), string(file))
	}
}

// TestCTCVocabulariesHaveAllLetters: of texts, sorted, with the tokens of CTC after them.
func TestCTCVocabulariesHaveAllLetters(t *testing.T) {
	o := text.CTCOptions{UnkToken: "[UNK]", PadToken: "[PAD]"}
	vocab := text.CTCVocabulary(slices.Values([]string{"ab c", "ü"}), o)
	assert.Equal(t, map[string]int64{"|": 0, "a": 1, "b": 2, "c": 3, "ü": 4, "[UNK]": 5, "[PAD]": 6}, vocab)
	tok, err := text.NewCTCTokenizer(vocab, o)
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 0, 5, 4}, tok.Encode("b xü"))
	assert.Equal(t, []string{"x", "A"}, tok.Unknown("b xü x A[PAD]"))
	assert.Empty(t, tok.Unknown("b aü"))
	o.DoLowerCase = true
	upper, err := text.NewCTCTokenizer(map[string]int64{"|": 0, "A": 1, "[UNK]": 2, "[PAD]": 3}, o)
	require.NoError(t, err)
	assert.Equal(t, []string{"B"}, upper.Unknown("a b"))
	id, ok := tok.TokenToID("</s>")
	assert.True(t, ok)
	assert.EqualValues(t, 8, id)
	token, ok := tok.IDToToken(4)
	assert.True(t, ok)
	assert.Equal(t, "ü", token)
}

// TestCTCFilesThatCannotBeAreRefused names the file and what is wrong in it.
func TestCTCFilesThatCannotBeAreRefused(t *testing.T) {
	_, err := text.LoadCTCTokenizer(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, c := range []struct{ name, content, want string }{
		{"vocab.json", `{"eng": {"a": 1}}`, "vocab.json: json: cannot unmarshal"},
		{"vocab.json", `{"a": 1, "b": 1}`, "have the id 1; want one each"},
		{"vocab.json", `{"": 1}`, "the vocabulary has an empty token"},
		{"vocab.json", `{"a": -1}`, "has the id -1; want 0 or more"},
		{"tokenizer_config.json", `{"tokenizer_class": "BertTokenizer"}`, `is "BertTokenizer"; want "Wav2Vec2CTCTokenizer"`},
		{"tokenizer_config.json", `{"target_lang": "eng"}`, `target_lang is "eng"; want null`},
		{"tokenizer_config.json", `{"added_tokens_decoder": {"x": {"content": "<s>"}}}`, `has the key "x"; want ids`},
		{"tokenizer_config.json", `[]`, "tokenizer_config.json"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.json"), []byte(`{"a": 0}`), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, c.name), []byte(c.content), 0o600))
		_, err := text.LoadCTCTokenizer(dir)
		require.ErrorContains(t, err, c.want)
	}
}

// FuzzLoadCTCTokenizer: no file makes it panic, and what it takes is saved and loaded again.
func FuzzLoadCTCTokenizer(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5}`, `{"do_lower_case": true, "bos_token": null}`},
		{`{"a": -1}`, `{"added_tokens_decoder": {"7": {"content": "x"}}, "eos_token": ""}`},
		{`{"a": 9007199254740993, "": 0}`, `{"pad_token": {"content": "a"}, "word_delimiter_token": null}`},
		{`null`, `{"added_tokens_decoder": {"x": null}, "target_lang": "deu"}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, vocab, config string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.json"), []byte(vocab), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o600))
		tok, err := text.LoadCTCTokenizer(dir)
		if err != nil {
			return
		}
		ids := tok.Encode("a B|<s>ß ")
		tok.Decode(ids)
		tok.Decode([]int64{-1, 1 << 40})
		to := t.TempDir()
		require.NoError(t, tok.Save(to))
		again, err := text.LoadCTCTokenizer(to)
		require.NoError(t, err)
		require.Equal(t, ids, again.Encode("a B|<s>ß "))
	})
}
