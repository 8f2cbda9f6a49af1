package digits_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/digits"
)

func collect(t *testing.T, d data.Dataset[data.Example]) []data.Example {
	t.Helper()
	list, err := data.Collect(t.Context(), d, func(e data.Example) (data.Example, error) { return e, nil })
	require.NoError(t, err)
	return list
}

// The counts are those of load_digits().target in scikit-learn 1.9.1.
func TestEveryDigitIsInOneOfTheParts(t *testing.T) {
	assert.Equal(t, 1437, digits.Train().Len())
	assert.Equal(t, 360, digits.Test().Len())
	seen := map[string]bool{}
	counts := make([]int, digits.Classes)
	for _, e := range append(collect(t, digits.Train()), collect(t, digits.Test())...) {
		require.Len(t, e.Features, digits.Width*digits.Height)
		picture := make([]byte, len(e.Features))
		for i, v := range e.Features {
			require.True(t, v >= 0 && v <= 1, v)
			picture[i] = byte(16 * v)
		}
		assert.False(t, seen[string(picture)], "a picture is there twice")
		seen[string(picture)] = true
		counts[e.Class]++
	}
	assert.Equal(t, []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}, counts)
}

// The permutation is numpy.random.default_rng(42).permutation(1797), as in train_test_split of
// datasets: the first 360 are the test set.
func TestTheSplitIsThatOfDatasets(t *testing.T) {
	test, train := collect(t, digits.Test()), collect(t, digits.Train())
	assert.Equal(t, []int64{2, 4, 8, 9, 9, 2, 2, 2, 9, 1}, classes(test[:10]))
	assert.Equal(t, []int64{5, 2, 6, 3, 6, 6, 4, 8, 7, 3}, classes(train[:10]))
	var first []int
	for _, v := range test[0].Features {
		first = append(first, int(16*v))
	}
	assert.Equal(t, []int{0, 0, 10, 15, 13, 1, 0, 0, 0, 4, 16, 7, 13, 7, 0, 0, 0, 2, 11, 0, 12, 6, 0, 0, 0, 0, 0, 4, 14,
		0, 0, 0, 0, 0, 1, 15, 6, 0, 0, 0, 0, 0, 9, 12, 0, 0, 0, 0, 0, 4, 16, 7, 7, 13, 3, 0, 0, 0, 10, 16, 12, 3, 0, 0},
		first)
}

func classes(list []data.Example) (c []int64) {
	for _, e := range list {
		c = append(c, e.Class)
	}
	return c
}
