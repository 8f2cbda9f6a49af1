package processors_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/processors"
)

// Expected values are those of tokenizers 0.23.3 for the same texts.
func TestSpecialTokensAroundSpecialTokens(t *testing.T) {
	of := func(ids ...int64) *encodings.Encoding {
		e := encodings.New(len(ids))
		for _, id := range ids {
			e.Append(id, 0, "", 0, encodings.Span{}, encodings.Span{})
		}
		return e
	}
	bert := processors.BertProcessing{
		Cls: processors.SpecialToken{Token: "[CLS]", ID: 0}, Sep: processors.SpecialToken{Token: "[SEP]", ID: 1},
	}
	roberta := processors.RobertaProcessing{
		Cls: processors.SpecialToken{Token: "<s>", ID: 4}, Sep: processors.SpecialToken{Token: "</s>", ID: 5},
	}
	q := processors.Sequence{bert, roberta}
	e, err := processors.Process(q, of(2, 3), nil, true)
	require.NoError(t, err)
	assert.Equal(t, []int64{4, 0, 2, 3, 1, 5}, e.IDs)
	assert.Equal(t, []int{-1, 0, 0, 0, 0, -1}, e.SequenceIDs())
	assert.Len(t, e.IDs, 2+q.AddedTokens(false))

	e, err = processors.Process(q, of(2, 3), of(6), true)
	require.NoError(t, err)
	assert.Equal(t, []int64{4, 0, 2, 3, 1, 5, 5, 6, 1, 5}, e.IDs)
	assert.Equal(t, []int{-1, 0, 0, 0, 0, -1, -1, 1, 1, -1}, e.SequenceIDs())
	assert.Len(t, e.IDs, 3+q.AddedTokens(true))
}
