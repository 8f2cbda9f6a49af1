package data_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
)

// TestRepeatIsTheSamplerOfTRL: what RepeatSampler(range(7), mini_repeat_count=1, batch_size=3,
// repeat_count=2, seed=42) of trl 1.16 yields in three passes.
func TestRepeatIsTheSamplerOfTRL(t *testing.T) {
	r := data.RepeatSampler{Chunk: 3, Times: 2, Seed: 42}
	for epoch, want := range [][]int{{1, 6, 3, 1, 6, 3, 5, 4, 0, 5, 4, 0}, {5, 3, 2, 5, 3, 2, 4, 0, 1, 4, 0, 1},
		{6, 1, 3, 6, 1, 3, 2, 0, 4, 2, 0, 4}} {
		assert.Equal(t, want, r.Indices(epoch, 7))
		assert.Equal(t, len(want), r.Count(7))
	}
	assert.Equal(t, []int{0, 1, 2, 3}, data.RepeatSampler{Chunk: 2, Unshuffled: true}.Indices(1, 5))
	for want, r := range map[string]data.RepeatSampler{"chunks of 0 samples": {}, "-1 times each": {Chunk: 1, Times: -1},
		"chunks of 8 samples, which a data set of 7 does not fill": {Chunk: 8}} {
		require.ErrorContains(t, r.Check(7), want)
		assert.Zero(t, r.Count(7))
		assert.Nil(t, r.Indices(0, 7))
	}
}
