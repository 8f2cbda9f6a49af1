package bart_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/torch"
)

// recordedTokenizer is a tokenizer of mBART, and what it makes of a text and its translation: in the
// languages of its files, then in fr_XX and de_DE.
type recordedTokenizer struct {
	Family, Source, Target string
	Files                  map[string]string
	IDs, Labels            [][]int64
	Code, Size             int64  // of de_DE, and of the vocabulary
	Text                   string // a text in German, decoded
}

func tokenizers(t *testing.T) []recordedTokenizer {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	var f struct{ Tokenizers []recordedTokenizer }
	require.NoError(t, json.Unmarshal(read(t, "testdata/bart.json"), &f))
	require.Len(t, f.Tokenizers, 3)
	return f.Tokenizers
}

// open makes a small mBART with the tokenizer, and the other files given.
func (r recordedTokenizer) open(t *testing.T, files map[string]string) *auto.Seq2SeqLanguageModel {
	t.Helper()
	dir := modeltest.ConfigFolder(t, map[string]any{"model_type": "mbart", "vocab_size": r.Size, "d_model": 16,
		"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
		"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 16})
	for _, all := range []map[string]string{r.Files, files} {
		for name, text := range all {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	torch.ManualSeed(1)
	m, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	return m
}

// same compares the samples of a model with those of transformers' tokenizer.
func (r recordedTokenizer) same(t *testing.T, m *auto.Seq2SeqLanguageModel, i int) {
	t.Helper()
	s, err := m.Encode("in Paris", "Paris ab")
	require.NoError(t, err)
	assert.Equal(t, r.IDs[i], s.InputIDs)
	assert.Equal(t, r.Labels[i], s.Labels)
	assert.Equal(t, s.Labels[len(s.Labels)-1], m.DecoderStartOf(append(s.Labels, inputs.IgnoreIndex, 1)))
}

func TestLanguagesAreThoseOfTransformersTokenizers(t *testing.T) {
	for _, r := range tokenizers(t) {
		t.Run(r.Family+" "+r.Source, func(t *testing.T) {
			m := r.open(t, map[string]string{"generation_config.json": `{"max_new_tokens": 3, "num_beams": 2}`})
			r.same(t, m, 0)
			unchanged := t.TempDir()
			require.NoError(t, m.Save(unchanged))
			assert.Equal(t, r.Files["tokenizer.json"], string(read(t, filepath.Join(unchanged, "tokenizer.json"))))

			require.NoError(t, m.SetLanguages("fr_XX", "de_DE"))
			r.same(t, m, 1)
			assert.Equal(t, r.Text, m.Tokenizer.Decode(append([]int64{r.Code}, idsOf(t, m, "in Paris ab")...), nil))
			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			again, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.NoError(t, err)
			r.same(t, again, 1)
			for _, m := range []*auto.Seq2SeqLanguageModel{m, again} {
				rows, err := m.GenerateIDs(t.Context(), []inputs.Text{{InputIDs: r.IDs[1]}}, auto.Generation{})
				require.NoError(t, err)
				if r.Family == "MBart50" {
					assert.Equal(t, r.Code, rows[0][0])
				} else {
					assert.Equal(t, r.Code, m.DecoderStartTokenID())
				}
			}
			key := map[string]string{"MBart": "decoder_start_token_id", "MBart50": "forced_bos_token_id"}[r.Family]
			for _, name := range []string{pretrained.ConfigName, "generation_config.json"} {
				var saved map[string]any
				require.NoError(t, json.Unmarshal(read(t, filepath.Join(dir, name)), &saved))
				assert.EqualValues(t, r.Code, saved[key], name)
			}
		})
	}
}

func idsOf(t *testing.T, m *auto.Seq2SeqLanguageModel, text string) []int64 {
	t.Helper()
	e, err := m.Tokenizer.Encode(text, nil)
	require.NoError(t, err)
	return e.IDs
}

func TestLanguagesThatCannotBeAreRefused(t *testing.T) {
	r := tokenizers(t)[0]
	m := r.open(t, nil)
	require.ErrorContains(t, m.SetLanguages("en_XX", "xx_XX"), `no language "xx_XX"`)
	require.ErrorContains(t, m.SetLanguages("", "en_XX"), `no language ""`)
	r.same(t, m, 0)
	plain, err := m.Tokenizer.WithPostProcessor(nil)
	require.NoError(t, err)
	m.Tokenizer = plain
	require.ErrorContains(t, m.SetLanguages("en_XX", "ro_RO"), "puts no code of a language")
	m.Tokenizer = nil
	require.ErrorContains(t, m.SetLanguages("en_XX", "ro_RO"), "no tokenizer")
	small := bart.Config{VocabSize: 20, HiddenSize: 16, EncoderLayers: 1, DecoderLayers: 1, EncoderAttentionHeads: 2,
		DecoderAttentionHeads: 2, EncoderFFNDim: 16, DecoderFFNDim: 16, MaxPositions: 8}
	other, err := auto.NewSeq2SeqLM(small, nil)
	require.NoError(t, err)
	require.ErrorContains(t, other.SetLanguages("en_XX", "ro_RO"), "BartForConditionalGeneration has no languages")
}
