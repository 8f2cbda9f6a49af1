package text

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text/processors"
)

func TestAnotherPostProcessorChangesOnlyTheSpecialTokens(t *testing.T) {
	plain, err := ParseTokenizer([]byte(`{"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
		"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "</s>": 2, "en_XX": 3}, "unk_token": "a"}}`))
	require.NoError(t, err)
	short, err := plain.WithTruncation(&Truncation{MaxLength: 3})
	require.NoError(t, err)
	end := processors.SpecialToken{Token: "</s>", ID: 2}
	p, err := processors.NewTemplateProcessing("$A </s> en_XX", "$A $B </s> en_XX", end,
		processors.SpecialToken{Token: "en_XX", ID: 3})
	require.NoError(t, err)
	with, err := short.WithPostProcessor(p)
	require.NoError(t, err)
	without, err := with.WithPostProcessor(nil)
	require.NoError(t, err)
	for _, c := range []struct {
		t    *Tokenizer
		want []int64
	}{{short, []int64{0, 1, 0}}, {with, []int64{0, 2, 3}}, {without, []int64{0, 1, 0}}} {
		e, err := c.t.Encode("a b a b", nil)
		require.NoError(t, err)
		assert.Equal(t, c.want, e.IDs)
		ids, err := c.t.AppendIDs(nil, Single("a b a b"), nil)
		require.NoError(t, err)
		assert.Equal(t, c.want, ids, "the fast path")
	}
	short, err = plain.WithTruncation(&Truncation{MaxLength: 1})
	require.NoError(t, err)
	_, err = short.WithPostProcessor(p)
	require.ErrorContains(t, err, "no room for the 2 special ones")
}
