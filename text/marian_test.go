package text

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const marianFolder = "testdata/marian"

// marianCases are what testdata/marian.py has written for a folder.
type marianCases struct {
	Cases []struct {
		Text           string
		IDs, Labels    []int64
		Decoded, Whole string // of the labels, without special tokens and with them
	}
	Pair []int64
}

// TestMarianTokenizersAreTransformers compares ids of source and target texts, and decoded texts,
// also after the tokenizer was saved.
func TestMarianTokenizersAreTransformers(t *testing.T) {
	for _, name := range []string{"shared", "separate"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(marianFolder, name)
			content, err := os.ReadFile(filepath.Join(dir, "cases.json"))
			require.NoError(t, err)
			var want marianCases
			require.NoError(t, json.Unmarshal(content, &want))
			require.Equal(t, 30, len(want.Cases)) //nolint:testifylint // Len would print them all
			tok, err := LoadTokenizer(dir)
			require.NoError(t, err)
			saved := t.TempDir()
			require.NoError(t, tok.Save(saved))
			for name := range tok.marian.files {
				same, err := os.ReadFile(filepath.Join(dir, name))
				require.NoError(t, err)
				written, err := os.ReadFile(filepath.Join(saved, name))
				require.NoError(t, err)
				assert.Equal(t, same, written, name)
			}
			again, err := LoadTokenizer(saved)
			require.NoError(t, err)
			for _, tok := range []*Tokenizer{tok, again} {
				encoded := func(tok *Tokenizer, in Input) []int64 {
					e, err := tok.EncodeInput(in, nil)
					require.NoError(t, err)
					ids, err := tok.AppendIDs(nil, in, nil)
					require.NoError(t, err)
					assert.Equal(t, e.IDs, ids)
					return e.IDs
				}
				for _, c := range want.Cases {
					assert.Equal(t, c.IDs, encoded(tok, Single(c.Text)), "%q", c.Text)
					assert.Equal(t, c.Labels, encoded(tok.Target(), Single(c.Text)), "%q", c.Text)
					assert.Equal(t, c.Decoded, tok.Target().Decode(c.Labels, nil), "%q", c.Text)
					assert.Equal(t, c.Whole, tok.Target().Decode(c.Labels, &DecodeOptions{KeepSpecialTokens: true}), "%q", c.Text)
				}
				assert.Equal(t, want.Pair, encoded(tok, Pair("the lazy dog", ">>fra<< frog")))
			}
		})
	}
}

// TestTargetTruncatesAsItsTokenizer: what a tokenizer was given holds for target texts, too.
func TestTargetTruncatesAsItsTokenizer(t *testing.T) {
	tok, err := LoadTokenizer(filepath.Join(marianFolder, "shared"))
	require.NoError(t, err)
	tok, err = tok.WithTruncation(&Truncation{MaxLength: 4})
	require.NoError(t, err)
	e, err := tok.Target().Encode("petite grenouille", nil)
	require.NoError(t, err)
	assert.Len(t, e.IDs, 4)
	assert.Equal(t, int64(0), e.IDs[3])
	_, err = tok.MarshalJSON()
	require.ErrorContains(t, err, "a MarianTokenizer has no tokenizer.json")
	require.ErrorContains(t, tok.Target().Save(t.TempDir()), "a MarianTokenizer has no tokenizer.json")
	plain, err := LoadTokenizer("testdata/pieces/t5")
	require.NoError(t, err)
	assert.Same(t, plain, plain.Target())
	other, err := tok.WithPostProcessor(nil)
	require.NoError(t, err)
	require.ErrorContains(t, other.Save(t.TempDir()), "cannot be saved with another post-processor")
}

// TestFilesOfAMarianTokenizerCount changes the files of a folder.
func TestFilesOfAMarianTokenizerCount(t *testing.T) {
	with := func(name string, files map[string]string) (*Tokenizer, error) {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(marianFolder, name))))
		for _, file := range slices.Sorted(maps.Keys(files)) {
			path := filepath.Join(dir, file)
			require.NoError(t, os.RemoveAll(path))
			if files[file] != "" {
				require.NoError(t, os.WriteFile(path, []byte(files[file]), 0o600))
			}
		}
		return LoadTokenizer(dir)
	}
	for _, c := range []struct {
		folder, want string
		files        map[string]string
	}{
		{"shared", "but no vocab.json; want the files of a MarianTokenizer: source.spm, target.spm, vocab.json",
			map[string]string{"vocab.json": ""}},
		{"separate", "but no target_vocab.json", map[string]string{"target_vocab.json": ""}},
		{"shared", `the vocabulary of 1 tokens lacks "<unk>" (unk_token)`, map[string]string{"vocab.json": `{"a": 0}`}},
		{"shared", "cannot unmarshal", map[string]string{"vocab.json": `{"a": "b"}`}},
		{"separate", `the token "</s>" has the id 5, but 0 in vocab.json`, map[string]string{
			"target_vocab.json": `{"</s>": 5, "<unk>": 1, "<pad>": 2}`}},
		{"shared", "only an empty one is supported", map[string]string{
			"tokenizer_config.json": `{"sp_model_kwargs": {"enable_sampling": true}}`}},
		{"shared", "this is no model of SentencePiece", map[string]string{"target.spm": "\xff\xff"}},
	} {
		_, err := with(c.folder, c.files)
		require.ErrorContains(t, err, c.want)
		require.NotErrorIs(t, err, fs.ErrNotExist)
	}
	_, err := with("shared", map[string]string{"source.spm": ""})
	require.ErrorIs(t, err, fs.ErrNotExist) // it is no MarianTokenizer
	config := `{"tokenizer_class": "PreTrainedTokenizerFast"}`
	other, err := LoadTokenizer("testdata/pieces/t5")
	require.NoError(t, err)
	json, err := other.MarshalJSON()
	require.NoError(t, err)
	tok, err := with("shared", map[string]string{"tokenizer.json": string(json), "tokenizer_config.json": config})
	require.NoError(t, err)
	assert.Nil(t, tok.marian)
	tok, err = with("shared", map[string]string{"tokenizer.json": string(json)})
	require.NoError(t, err)
	assert.NotNil(t, tok.marian)
	user, err := os.ReadFile("testdata/pieces/mt5/spiece.model")
	require.NoError(t, err)
	_, err = with("shared", map[string]string{"source.spm": string(user)})
	require.ErrorContains(t, err, `the piece "<sep>" is one that a user defined`)
}
