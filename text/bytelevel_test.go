package text

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// TestTrainedMergesAreTheReferences compares whole tokenizers, merge by merge, and the ids of
// texts.
func TestTrainedMergesAreTheReferences(t *testing.T) {
	raw, err := os.ReadFile("testdata/train_bpe.json")
	require.NoError(t, err)
	var f struct {
		Texts, Seen []string
		Cases       []struct {
			Level    string
			Settings struct {
				VocabSize     int      `json:"vocab_size"`
				MinFrequency  int      `json:"min_frequency"`
				SpecialTokens []string `json:"special_tokens"`
			}
			Tokenizer json.RawMessage
			IDs       [][]int64
		}
	}
	require.NoError(t, json.Unmarshal(raw, &f))
	require.Len(t, f.Cases, 26)
	for _, c := range f.Cases {
		s := c.Settings
		o := TrainOptions{VocabSize: s.VocabSize, MinFrequency: s.MinFrequency,
			SpecialTokens: s.SpecialTokens}
		if s.VocabSize == 0 {
			o.VocabSize = 1 // less than the alphabet, which is always included; 0 would mean the default
		}
		var tok *Tokenizer
		if c.Level == "bytes" {
			tok, err = TrainByteLevel(slices.Values(f.Texts), o)
		} else {
			o.UnknownToken = "<unk>"
			var m *models.BPE
			m, err = models.TrainBPE(CountWords(slices.Values(f.Texts), nil, pretokenizers.Whitespace{}), o)
			require.NoError(t, err)
			tok, err = New(Config{Model: m, PreTokenizer: pretokenizers.Whitespace{},
				AddedTokens: SpecialTokens("<unk>")})
		}
		require.NoError(t, err)
		got, err := json.Marshal(tok)
		require.NoError(t, err)
		assert.JSONEq(t, string(c.Tokenizer), string(got), "%s %+v", c.Level, s)
		for i, text := range f.Seen {
			e, err := tok.Encode(text, nil)
			require.NoError(t, err)
			assert.Equal(t, c.IDs[i], append([]int64{}, e.IDs...), "%s %+v: %q", c.Level, s, text)
		}
	}
}

func TestBytesComeBack(t *testing.T) {
	tok, err := TrainByteLevel(slices.Values([]string{"low lower lowest", "new newer newest"}),
		TrainOptions{Prefix: "##", InitialAlphabet: []rune("x")})
	require.NoError(t, err)
	id, ok := tok.TokenToID("<|endoftext|>")
	require.True(t, ok)
	require.Zero(t, id)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if strings.Contains(text, "<|endoftext|>") {
			return
		}
		e, err := tok.Encode(text, nil)
		require.NoError(t, err)
		require.Equal(t, text, tok.Decode(e.IDs, nil))
	})
}

func TestSavedByteLevelNamesItsEnd(t *testing.T) {
	tok, err := TrainByteLevel(slices.Values([]string{"a text"}), TrainOptions{})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, tok.Save(dir))
	raw, err := os.ReadFile(dir + "/tokenizer_config.json")
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(raw, &c))
	assert.Equal(t, "<|endoftext|>", c["eos_token"])
	assert.Equal(t, "<|endoftext|>", c["bos_token"])
	_, err = TrainByteLevel(slices.Values([]string{"a text"}), TrainOptions{VocabSize: -1})
	require.ErrorContains(t, err, "must not be negative")
}

func ExampleTrainByteLevel() {
	texts := []string{"low lower lowest", "new newer newest", "wide wider widest"}
	tok, err := TrainByteLevel(slices.Values(texts), TrainOptions{VocabSize: 270})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := tok.Encode("the newest low", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tok.VocabSize(), e.Tokens, tok.Decode(e.IDs, nil))
	// Output: 270 [t h e Ġne west Ġlo w] the newest low
}
