package marian_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/marian"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// tokenizers has the files of two tokenizers, which package text compares with transformers.
const tokenizers = "../../text/testdata/marian/"

// withTokenizer makes a small model for the vocabularies of a tokenizer.
func withTokenizer(t *testing.T, name string) *auto.Seq2SeqLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	tok, err := text.LoadTokenizer(tokenizers + name)
	require.NoError(t, err)
	pad, ok := tok.TokenToID("<pad>")
	require.True(t, ok)
	torch.ManualSeed(1)
	m, err := auto.NewSeq2SeqLM(marian.Config{VocabSize: int64(tok.VocabSize()),
		DecoderVocabSize:              int64(tok.Target().VocabSize()),
		ShareEncoderDecoderEmbeddings: new(name == "shared"), PadTokenID: &pad, DecoderStartTokenID: &pad, HiddenSize: 16,
		MaxPositions: 40, EncoderLayers: 1, DecoderLayers: 1, EncoderAttentionHeads: 2, DecoderAttentionHeads: 2,
		EncoderFFNDim: 16, DecoderFFNDim: 16}, tok)
	require.NoError(t, err)
	return m
}

// TestTextsOfTwoLanguages: a model encodes source and target texts each in its own way and decodes
// the latter, and its tokenizer's files go where it is saved to.
func TestTextsOfTwoLanguages(t *testing.T) {
	for _, name := range []string{"shared", "separate"} {
		t.Run(name, func(t *testing.T) {
			m := withTokenizer(t, name)
			const source, target = ">>fra<< the bus", "жаба"
			check := func(m *auto.Seq2SeqLanguageModel) {
				s, err := m.Encode(source, target)
				require.NoError(t, err)
				want, err := m.Tokenizer.Encode(source, nil)
				require.NoError(t, err)
				labels, err := m.Tokenizer.Target().Encode(target, nil)
				require.NoError(t, err)
				assert.Equal(t, want.IDs, s.InputIDs)
				assert.Equal(t, labels.IDs, s.Labels)
				assert.Equal(t, target, m.Tokenizer.Target().Decode(s.Labels, nil))
			}
			check(m)
			// A target that the model must write: all other tokens are excluded.
			s, err := m.Encode(source, target)
			require.NoError(t, err)
			var others []int64
			for id := range m.Limits().TargetVocab() {
				if id != s.Labels[0] && id != s.Labels[1] {
					others = append(others, id)
				}
			}
			written, err := m.Generate(t.Context(), source, auto.Generation{SuppressTokens: others, MaxNewTokens: 2,
				EOSTokenIDs: []int64{}, ForcedEOSTokenIDs: []int64{}, NoRepeatNGramSize: 1, BeginSuppressTokens: s.Labels[1:2]})
			require.NoError(t, err)
			assert.Equal(t, m.Tokenizer.Target().Decode(s.Labels[:2], nil), written)

			first, second := t.TempDir(), t.TempDir()
			require.NoError(t, m.Save(first))
			again, err := auto.Seq2SeqLM(t.Context(), first, auto.Options{})
			require.NoError(t, err)
			check(again)
			again.Tokenizer, err = again.Tokenizer.WithTruncation(&text.Truncation{MaxLength: 20})
			require.NoError(t, err)
			require.NoError(t, again.Save(second))
			for _, file := range []string{"source.spm", "target.spm", "vocab.json", "tokenizer_config.json"} {
				want, err := os.ReadFile(filepath.Join(first, file))
				require.NoError(t, err)
				got, err := os.ReadFile(filepath.Join(second, file))
				require.NoError(t, err)
				assert.Equal(t, want, got, file)
			}
			assert.NoFileExists(t, filepath.Join(second, "tokenizer.json"))
			loaded := again.Tokenizer
			again.Tokenizer, err = loaded.WithPostProcessor(nil)
			require.NoError(t, err)
			require.ErrorContains(t, again.Save(t.TempDir()), "cannot be saved with another post-processor")

			// Another tokenizer takes the place of the folder's, and the folder's that of another.
			again.Tokenizer, err = text.LoadTokenizer("../../text/testdata/pieces/t5")
			require.NoError(t, err)
			require.NoError(t, again.Save(second))
			other, err := text.LoadTokenizer(second)
			require.NoError(t, err)
			assert.Equal(t, again.Tokenizer.VocabSize(), other.VocabSize())
			again.Tokenizer = loaded
			require.NoError(t, again.Save(second))
			other, err = text.LoadTokenizer(second)
			require.NoError(t, err)
			assert.Equal(t, loaded.VocabSize(), other.VocabSize())
		})
	}
}

// TestStopStringsAreThoseOfTargetTexts: the pieces that complete a string are those of the target
// vocabulary.
func TestStopStringsAreThoseOfTargetTexts(t *testing.T) {
	m := withTokenizer(t, "separate")
	_, err := m.Generate(t.Context(), "the bus", auto.Generation{MaxNewTokens: 3, StopStrings: []string{"e"}})
	require.NoError(t, err)
	var parts string
	written, err := m.Generate(t.Context(), "the bus", auto.Generation{MaxNewTokens: 3,
		Stream: func(part string) { parts += part }})
	require.NoError(t, err)
	assert.Equal(t, written, parts)
}
