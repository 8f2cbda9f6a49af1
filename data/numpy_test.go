package data_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
)

// numpyGolden is the content of testdata/numpy_orders.json.
type numpyGolden struct {
	Permutation []goldenOrder
	Split       []struct {
		N           int
		Fraction    float64
		Seed        uint64
		Train, Test []int
	}
	Shard []struct {
		N, Shards  int
		Contiguous bool
		Parts      [][]int
	}
}

func loadNumpyGolden(t *testing.T) (g numpyGolden) {
	t.Helper()
	text, err := os.ReadFile("testdata/numpy_orders.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestNumpyPermutationIsNumpys(t *testing.T) {
	for _, g := range loadNumpyGolden(t).Permutation {
		g.compare(t, fmt.Sprintf("NumpyPermutation(%d, %d)", g.Seed, g.N), data.NumpyPermutation(g.Seed, g.N))
		g.compare(t, fmt.Sprintf("Shuffle(%d samples, %d)", g.N, g.Seed),
			all(t, data.Shuffle[int](data.Slice[int](data.Sequential{}.Indices(0, g.N)), g.Seed)))
	}
}

func TestTrainTestSplitIsThatOfDatasets(t *testing.T) {
	for _, g := range loadNumpyGolden(t).Split {
		train, test, err := data.TrainTestSplit[int](data.Slice[int](data.Sequential{}.Indices(0, g.N)), g.Fraction,
			g.Seed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]int{g.Train, g.Test}, [][]int{all(t, train), all(t, test)}); diff != "" {
			t.Errorf("TrainTestSplit(%d samples, %v, %d) (-want +got):\n%s", g.N, g.Fraction, g.Seed, diff)
		}
	}
}

func TestShardIsThatOfDatasets(t *testing.T) {
	for _, g := range loadNumpyGolden(t).Shard {
		for k, want := range g.Parts {
			d := data.Slice[int](data.Sequential{}.Indices(0, g.N))
			cut := data.Part[int]
			if !g.Contiguous {
				cut = data.Stride[int]
			}
			part, err := cut(d, k, g.Shards)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, all(t, part)); diff != "" {
				t.Errorf("shard %d of %d of %d samples, contiguous %v (-want +got):\n%s", k, g.Shards, g.N,
					g.Contiguous, diff)
			}
		}
	}
}
