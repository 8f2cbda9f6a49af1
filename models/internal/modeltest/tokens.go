package modeltest

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text"
)

// SameTokens compares the output of the tokenizer in testdata/tokenizer with that of the tokenizers
// library: see tokens.py.
func SameTokens(t *testing.T) {
	t.Helper()
	tokenizer, err := text.LoadTokenizer("testdata/tokenizer")
	require.NoError(t, err)
	file, err := os.ReadFile("testdata/tokenizer/cases.json")
	require.NoError(t, err)
	var cases []struct {
		Texts      []string
		IDs, Types []int64
	}
	require.NoError(t, json.Unmarshal(file, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		in := text.Single(c.Texts[0])
		if len(c.Texts) > 1 {
			in = text.Pair(c.Texts[0], c.Texts[1])
		}
		e, err := tokenizer.EncodeInput(in, nil)
		require.NoError(t, err)
		assert.Equal(t, c.IDs, e.IDs, "%q", c.Texts)
		assert.Equal(t, c.Types, e.TypeIDs, "%q", c.Texts)
	}
}
