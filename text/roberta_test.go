package text

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// robertaFolder is a folder in testdata/roberta.json.
type robertaFolder struct {
	Name      string
	Files     map[string]string
	Tokenizer map[string]any // tokenizer.json
	IDs       [][]int64
	Offsets   [][][2]int
	Pair      []int64
	Decoded   []string
}

func robertaFolders(t *testing.T) (texts []string, folders []robertaFolder) {
	t.Helper()
	content, err := os.ReadFile("testdata/roberta.json")
	require.NoError(t, err)
	var f struct {
		Texts []string
		Cases []robertaFolder
	}
	require.NoError(t, json.Unmarshal(content, &f))
	require.NotEmpty(t, f.Cases)
	return f.Texts, f.Cases
}

func (f robertaFolder) write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range f.Files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// TestFoldersOfRobertaAreTransformersTokenizers compares the tokenizer that vocab.json and merges.txt
// make, and its ids, with RobertaTokenizer and GPT2Tokenizer of transformers 5.17.
func TestFoldersOfRobertaAreTransformersTokenizers(t *testing.T) {
	texts, folders := robertaFolders(t)
	for _, f := range folders {
		t.Run(f.Name, func(t *testing.T) {
			tok, err := LoadTokenizer(f.write(t))
			require.NoError(t, err)
			for i, s := range texts {
				e, err := tok.Encode(s, nil)
				require.NoError(t, err)
				assert.Equal(t, f.IDs[i], e.IDs, "%q", s)
				for k, span := range e.Offsets {
					assert.Equal(t, f.Offsets[i][k], [2]int{span.Start, span.End}, "%q, token %d", s, k)
				}
				assert.Equal(t, f.Decoded[i], tok.Decode(e.IDs, nil))
			}
			e, err := tok.EncodeInput(Pair("hello", "AB"), nil)
			require.NoError(t, err)
			assert.Equal(t, f.Pair, e.IDs)
			written, err := tok.MarshalJSON()
			require.NoError(t, err)
			var own map[string]any
			require.NoError(t, json.Unmarshal(written, &own))
			for _, part := range []string{"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"} {
				assert.Equal(t, f.Tokenizer[part], own[part], part)
			}
		})
	}
}

// TestFoldersThatAreNotRobertasAreRefused: a folder for another class has no tokenizer here, and
// errors name the file.
func TestFoldersThatAreNotRobertasAreRefused(t *testing.T) {
	_, folders := robertaFolders(t)
	load := func(name, content string) error {
		f := folders[1]
		f.Files = maps.Clone(f.Files)
		if f.Files[name] = content; content == "" {
			delete(f.Files, name)
		}
		_, err := LoadTokenizer(f.write(t))
		require.Error(t, err)
		return err
	}
	err := load("tokenizer_config.json", `{"tokenizer_class": "LEDTokenizer"}`)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, `"LEDTokenizer" cannot be made of vocab.json; save tokenizer.json with transformers`)
	require.ErrorIs(t, load("tokenizer_config.json", ""), fs.ErrNotExist)
	require.ErrorIs(t, load("merges.txt", ""), fs.ErrNotExist)
	require.ErrorIs(t, load("vocab.json", ""), fs.ErrNotExist)
	require.ErrorContains(t, load("merges.txt", "#version: 0.2\nh e l\n"), `merges.txt: line 2 is "h e l"; want two`)
	require.ErrorContains(t, load("merges.txt", "h q\n"), "the vocabulary lacks one of the tokens")
	require.ErrorContains(t, load("vocab.json", "[]"), "vocab.json")
	require.ErrorContains(t, load("tokenizer_config.json", "{"), "tokenizer_config.json")
}
