package data_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
)

func TestNoDuplicatesIsThatOfSentenceTransformers(t *testing.T) {
	text, err := os.ReadFile("testdata/no_duplicates.json")
	require.NoError(t, err)
	var cases []struct {
		Values    [][]string
		BatchSize int `json:"batch_size"`
		Seed      uint64
		Epochs    [][]int
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	resampled := 0
	for _, c := range cases {
		o := data.NoDuplicates{Values: c.Values, BatchSize: c.BatchSize, Seed: c.Seed}
		n := len(c.Values)
		require.NoError(t, o.Check(n))
		for epoch, want := range c.Epochs {
			got := o.Indices(epoch, n)
			require.Len(t, got, o.Count(n))
			assert.Equal(t, want, got[:len(want)]) // sentence-transformers may have given up
			seen := map[int]bool{}
			for begin := 0; begin < len(got); begin += c.BatchSize {
				used := map[string]int{}
				for _, i := range got[begin : begin+c.BatchSize] {
					seen[i] = true
					for _, v := range c.Values[i] {
						other, ok := used[v]
						assert.True(t, !ok || other == i, "samples %d and %d have %s in common", i, other, v)
						used[v] = i
					}
				}
			}
			if len(seen) < len(got) {
				resampled++
			}
		}
	}
	assert.Positive(t, resampled, "epochs in which samples came again")
}

func TestNoDuplicatesInALoader(t *testing.T) {
	values := make([][]string, 10)
	for i := range values {
		values[i] = []string{strconv.Itoa(i / 2)}
	}
	load := func(o data.NoDuplicates) error {
		loader, err := data.NewLoader(data.Slice[int](make([]int, 10)), func(s []int) (int, error) { return len(s), nil },
			data.LoaderOptions{BatchSize: 4, Order: o})
		if err != nil {
			return err
		}
		batches := 0
		for size, err := range loader.Epoch(t.Context(), 0, 0) {
			if err != nil {
				return err
			}
			assert.Equal(t, 4, size)
			batches++
		}
		assert.Equal(t, 2, batches)
		return nil
	}
	require.NoError(t, load(data.NoDuplicates{Values: values, BatchSize: 4}))
	require.ErrorContains(t, load(data.NoDuplicates{Values: values[1:], BatchSize: 4}), "values of 9 samples")
	require.ErrorContains(t, load(data.NoDuplicates{Values: values}), "BatchSize is 0")
	require.ErrorContains(t, load(data.NoDuplicates{Values: values, BatchSize: 6}), "finds no 6 samples")
	require.ErrorContains(t, load(data.NoDuplicates{Values: values, BatchSize: 11}), "whole batches of 11")
}
