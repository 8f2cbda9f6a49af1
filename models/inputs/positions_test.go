package inputs

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPositionsAreCountedAsTheModelDoes(t *testing.T) {
	ids := []int64{7, 1, 8, 8}
	assert.Equal(t, []int64{0, 1, 2, 3}, Limits{PadTokenID: 1}.appendPositions(nil, ids))
	assert.Equal(t, []int64{2, 1, 3, 4}, Limits{PadTokenID: 1, CountedPositions: true}.appendPositions(nil, ids),
		"RoBERTa gives a padding token in a text the position of padding")
}
