package text

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestModelsOfSentencePieceGiveItsIDs compares folders without tokenizer.json with what SentencePiece
// makes of texts: testdata/pieces.py. The tokenizer.json of such a tokenizer gives the same ids.
func TestModelsOfSentencePieceGiveItsIDs(t *testing.T) {
	folders, err := filepath.Glob("testdata/pieces/*/cases.json")
	require.NoError(t, err)
	require.Len(t, folders, 8)
	for _, file := range folders {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			tok, err := LoadTokenizer(filepath.Dir(file))
			require.NoError(t, err)
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			var cases []struct {
				Texts   []string
				IDs     []int64
				Decoded string
			}
			require.NoError(t, json.Unmarshal(content, &cases))
			require.GreaterOrEqual(t, len(cases), 24)
			dir := t.TempDir()
			require.NoError(t, tok.Save(dir))
			again, err := LoadTokenizer(dir)
			require.NoError(t, err)
			for _, c := range cases {
				in := Single(c.Texts[0])
				if len(c.Texts) > 1 {
					in = Pair(c.Texts[0], c.Texts[1])
				}
				for _, tok := range []*Tokenizer{tok, again} {
					e, err := tok.EncodeInput(in, nil)
					require.NoError(t, err)
					assert.Equal(t, c.IDs, e.IDs, "%q", c.Texts)
				}
				if len(c.Texts) == 1 {
					assert.Equal(t, c.Decoded, tok.Decode(c.IDs, nil), "%q", c.Texts)
				}
			}
		})
	}
}

func TestPiecesThatUsersDefineAreFoundAsAWhole(t *testing.T) {
	tok, err := LoadTokenizer("testdata/pieces/mt5/spiece.model")
	require.NoError(t, err)
	e, err := tok.Encode("in<sep>the", nil)
	require.NoError(t, err)
	assert.Contains(t, e.IDs, int64(3))
	assert.Equal(t, "in<sep> the", tok.Decode(e.IDs, nil))
}

// TestSettingsBesideAModelOfSentencePieceCount changes the files beside the models.
func TestSettingsBesideAModelOfSentencePieceCount(t *testing.T) {
	with := func(class string, files map[string]string) (*Tokenizer, error) {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata/pieces", class))))
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		return LoadTokenizer(dir)
	}
	ids := func(tok *Tokenizer, err error) func(s string) []int64 {
		require.NoError(t, err)
		return func(s string) []int64 {
			e, err := tok.Encode(s, nil)
			require.NoError(t, err)
			return e.IDs
		}
	}
	lower := ids(with("deberta", map[string]string{"tokenizer_config.json": `{"do_lower_case": true}`}))
	assert.Equal(t, lower("fox"), lower("FOX"))
	punct, err := with("deberta", map[string]string{"tokenizer_config.json": `{"split_by_punct": true}`})
	require.NoError(t, err)
	e, err := punct.Encode("a,b", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"[CLS]", "▁", "a", ",", "b", "[SEP]"}, e.Tokens)
	mask, ok := punct.TokenToID("[MASK]")
	assert.True(t, ok)
	assert.Equal(t, int64(punct.VocabSize()-1), mask)

	tok, err := with("t5", map[string]string{"tokenizer_config.json": `{"tokenizer_class": "T5Tokenizer", "extra_ids": 2,
		"additional_special_tokens": ["<extra_id_0>", "<extra_id_1>", "<more>"]}`})
	require.NoError(t, err)
	sentinel, _ := tok.TokenToID("<extra_id_0>")
	more, _ := tok.TokenToID("<more>")
	assert.Equal(t, []int64{sentinel + 1, int64(tok.VocabSize())}, []int64{more, more + 1})
	bos := ids(with("llama", map[string]string{"tokenizer_config.json": `{"tokenizer_class": "LlamaTokenizerFast",
		"add_bos_token": false}`}))
	assert.NotContains(t, bos("fox"), int64(1))

	for want, files := range map[string]map[string]string{
		`the tokenizer_class is "Bert"; want one of DebertaV2, Llama, MBart`: {
			"tokenizer_config.json": `{"tokenizer_class": "BertTokenizer"}`},
		"extra_ids is -1; want 0 to": {
			"tokenizer_config.json": `{"tokenizer_class": "T5Tokenizer", "extra_ids": -1}`},
		`the token "xx_XX" (src_lang) is not in the vocabulary`: {
			"tokenizer_config.json": `{"tokenizer_class": "MBartTokenizer", "src_lang": "xx_XX"}`},
		"cannot unmarshal":                  {"tokenizer_config.json": `{"tokenizer_class": 3}`},
		"this is no model of SentencePiece": {"spiece.model": "\xff\xff"},
		"there are no pieces":               {"spiece.model": ""},
	} {
		_, err := with("t5", files)
		assert.ErrorContains(t, err, want)
	}
}
