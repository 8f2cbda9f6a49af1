package sentencepiece

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// The tokens of texts are compared by the tests of package text.

func TestSettingsOfAModelAreRead(t *testing.T) {
	m, err := Open("../testdata/pieces/llama/tokenizer.model")
	require.NoError(t, err)
	assert.Equal(t, BPE, m.Algorithm)
	assert.True(t, m.ByteFallback)
	assert.True(t, m.AddDummyPrefix)
	assert.False(t, m.RemoveExtraWhitespaces)
	assert.Empty(t, m.Charsmap)
	assert.Equal(t, Piece{"<unk>", 0, Unknown}, m.Pieces[m.UnknownID])
	assert.Equal(t, Piece{"</s>", 0, Control}, m.Pieces[2])
	assert.Equal(t, Piece{"<0x00>", 0, Byte}, m.Pieces[3])
	m, err = Open("../testdata/pieces/t5/spiece.model")
	require.NoError(t, err)
	assert.Equal(t, Unigram, m.Algorithm)
	assert.Equal(t, int64(2), m.UnknownID)
	assert.NotEmpty(t, m.Charsmap)
	_, err = Open(filepath.Join(t.TempDir(), "none.model"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// message encodes fields of a protocol buffer: numbers, texts, or messages.
func message(of ...any) (b []byte) {
	for i := 0; i < len(of); i += 2 {
		number := protowire.Number(of[i].(int))
		switch v := of[i+1].(type) {
		case int:
			b = protowire.AppendTag(b, number, protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(v))
		case string:
			b = protowire.AppendTag(b, number, protowire.BytesType)
			b = protowire.AppendString(b, v)
		case []byte:
			b = protowire.AppendTag(b, number, protowire.BytesType)
			b = protowire.AppendBytes(b, v)
		}
	}
	return b
}

func TestModelsThatCannotBeReadAreRefused(t *testing.T) {
	unknown, a := message(1, message(1, "<unk>", 3, 2)), message(1, message(1, "a"))
	for want, file := range map[string][]byte{
		"there are no pieces in the 0 bytes":           nil,
		"this is no model of SentencePiece":            []byte("<html>"),
		"the unknown piece is number 7, but there are": append(message(2, message(40, 7)), unknown...),
		"the unknown piece is number -1":               append(message(2, message(40, -1)), unknown...),
	} {
		_, err := Parse(file)
		assert.ErrorContains(t, err, want)
	}
	for want, more := range map[string][]byte{
		"model_type is 4; want 1 (unigram) or 2 (BPE)": message(2, message(3, 4)),
		"treat_whitespace_as_suffix is set":            message(2, message(24, 1)),
		"escape_whitespaces is not set":                message(3, message(5, 0)),
		`piece 2, "b", is unused`:                      message(1, message(1, "b", 3, 5)),
		"charsmap":                                     message(3, message(2, "abc")),
	} {
		m, err := Parse(append(append(append([]byte{}, unknown...), a...), more...))
		require.NoError(t, err, want)
		_, err = m.Components()
		assert.ErrorContains(t, err, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"deberta/spm.model", "mt5/spiece.model", "mistral/tokenizer.model"} {
		data, err := os.ReadFile(filepath.Join("../testdata/pieces", name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add(message(1, message(1, "<unk>", 3, 2), 1, message(1, "a"), 2, message(3, 2, 35, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if c, err := m.Components(); err == nil {
			require.NotNil(t, c.Model)
			require.NotNil(t, c.Normalizer)
		}
	})
}
