package generatetest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/t5"
	"github.com/gotrainer/gotrainer/torch"
)

// withFile makes a model whose folder contains a generation_config.json.
func (m model) withFile(t *testing.T, content string) writer {
	t.Helper()
	dir := modeltest.ConfigFolder(t, m.Config)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(content), 0o600))
	return m.open(t, dir)
}

// TestTextsBeginAsTheFileSays: with decoder_start_token_id, or else with bos_token_id.
func TestTextsBeginAsTheFileSays(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/start.json")
	require.NoError(t, err)
	var r struct {
		Prompts [][]int64
		Config  map[string]any
		Files   []struct {
			File map[string]any
			Rows [][]int64
		}
	}
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Files, 4)
	m := model{Architecture: "T5ForConditionalGeneration", Attention: "sdpa", Config: r.Config}
	for i, f := range r.Files {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			goldencount.Start(t, "models", t.Name())
			content, err := json.Marshal(f.File)
			require.NoError(t, err)
			rows, err := m.withFile(t, string(content)).batch(t.Context(), r.Prompts, auto.Generation{})
			require.NoError(t, err)
			require.Len(t, rows, len(r.Prompts))
			for k, row := range rows {
				if testenv.SameBits() {
					assert.Equal(t, toEnd(f.Rows[k], []int64{60}), row, "prompt %d", k)
				}
			}
		})
	}
	_, err = m.withFile(t, `{"decoder_start_token_id": 61}`).batch(t.Context(), r.Prompts, auto.Generation{})
	assert.ErrorContains(t, err, "decoder_start_token_id is 61")
}

// TestAnEndThatIsNoTokenForbidsNone: an eos_token_id of -1 means that no token ends a text.
func TestAnEndThatIsNoTokenForbidsNone(t *testing.T) {
	r := load(t)
	w := r.Models[2].open(t, modeltest.ConfigFolder(t, r.Models[2].Config))
	prompts := [][]int64{{5, 6, 7}, {8, 9}}
	free, err := w.batch(t.Context(), prompts, auto.Generation{MaxNewTokens: 8, EOSTokenIDs: []int64{}})
	require.NoError(t, err)
	if testenv.SameBits() {
		require.Contains(t, free[0], int64(60), "the last id of the vocabulary, which Python's index -1 means")
	}
	g := auto.Generation{MaxNewTokens: 8, MinNewTokens: 8, EOSTokenIDs: []int64{-1}}
	bound, err := w.batch(t.Context(), prompts, g)
	require.NoError(t, err)
	assert.Equal(t, free, bound)
}

// TestStreamsThatNobodyCouldReadAreRefused: without a tokenizer, and in evaluations.
func TestStreamsThatNobodyCouldReadAreRefused(t *testing.T) {
	r := load(t)
	g := auto.Generation{Stream: func(string) {}}
	for _, i := range []int{0, 7} {
		w := r.Models[i].open(t, modeltest.ConfigFolder(t, r.Models[i].Config))
		_, err := w.batch(t.Context(), r.Prompts[:1], g)
		assert.ErrorContains(t, err, "tokenizer", r.Models[i].Name)
	}
	pair, err := auto.NewSeq2SeqLM(t5.Config{VocabSize: 61, HiddenSize: 16, NumLayers: 1}, nil)
	require.NoError(t, err)
	_, err = pair.Writer(g)
	assert.ErrorContains(t, err, "Stream")
}
