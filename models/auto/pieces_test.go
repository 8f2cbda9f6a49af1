package auto_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/text"
)

// TestFoldersWithAModelOfSentencePieceLoad: an mBART that has no tokenizer.json translates between
// its languages, and what is saved of it has one.
func TestFoldersWithAModelOfSentencePieceLoad(t *testing.T) {
	m, _ := newMBart(t)
	saved := t.TempDir()
	code := func(name string) int64 {
		id, ok := m.Tokenizer.TokenToID(name)
		require.True(t, ok, name)
		return id
	}
	s, err := m.Encode("the quick", "brown fox")
	require.NoError(t, err)
	assert.Equal(t, code("fr_XX"), s.InputIDs[len(s.InputIDs)-1]) // src_lang of tokenizer_config.json
	require.NoError(t, m.SetLanguages("de_DE", "ro_RO"))
	s, err = m.Encode("the quick", "brown fox")
	require.NoError(t, err)
	assert.Equal(t, []int64{2, code("de_DE")}, s.InputIDs[len(s.InputIDs)-2:])
	assert.Equal(t, []int64{2, code("ro_RO")}, s.Labels[len(s.Labels)-2:])

	require.NoError(t, m.Save(saved))
	assert.FileExists(t, filepath.Join(saved, "tokenizer.json"))
	assert.FileExists(t, filepath.Join(saved, "sentencepiece.bpe.model"))
	again, err := auto.Seq2SeqLM(t.Context(), saved, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	same, err := again.Encode("the quick", "brown fox")
	require.NoError(t, err)
	assert.Equal(t, s, same)
}

// TestAnAdaptersLanguagesAreKept: texts start in the language that was chosen before the adapter was
// saved.
func TestAnAdaptersLanguagesAreKept(t *testing.T) {
	m, dir := newMBart(t)
	adapter := t.TempDir()
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	require.NoError(t, m.SetLanguages("de_DE", "ro_RO"))
	require.NoError(t, m.Save(adapter))
	again, err := auto.Seq2SeqLM(t.Context(), adapter, auto.Options{BaseModel: dir, Warnings: io.Discard})
	require.NoError(t, err)
	id, _ := again.Tokenizer.TokenToID("ro_RO")
	assert.Equal(t, id, again.DecoderStartTokenID())
	want, err := m.Encode("the quick", "brown fox")
	require.NoError(t, err)
	s, err := again.Encode("the quick", "brown fox")
	require.NoError(t, err)
	assert.Equal(t, want, s)
}

// newMBart makes a small mBART and its folder, with a model of SentencePiece.
func newMBart(t *testing.T) (m *auto.Seq2SeqLanguageModel, dir string) {
	t.Helper()
	tok, err := text.LoadTokenizer("../../text/testdata/pieces/mbart")
	require.NoError(t, err)
	made, err := auto.NewSeq2SeqLM(bart.Config{Type: "mbart", VocabSize: int64(tok.VocabSize()), HiddenSize: 8,
		MaxPositions: 30, EncoderLayers: 1, DecoderLayers: 1, EncoderAttentionHeads: 2, DecoderAttentionHeads: 2,
		EncoderFFNDim: 8, DecoderFFNDim: 8}, nil)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, made.Save(dir))
	for _, name := range []string{"sentencepiece.bpe.model", "tokenizer_config.json"} {
		content, err := os.ReadFile(filepath.Join("../../text/testdata/pieces/mbart", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	m, err = auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	return m, dir
}
