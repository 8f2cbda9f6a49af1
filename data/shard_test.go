package data

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shardCase holds the batches of BatchSamplerShard by rank.
type shardCase struct {
	Samples      int       `json:"samples"`
	BatchSize    int       `json:"batch_size"`
	DropLast     bool      `json:"drop_last"`
	WorldSize    int       `json:"world_size"`
	SplitBatches bool      `json:"split_batches"`
	EvenBatches  bool      `json:"even_batches"`
	Batches      [][][]int `json:"batches"`
}

// shardCases are recorded by testdata/shard.py.
func shardCases(t *testing.T) (cases []shardCase) {
	raw, err := os.ReadFile("testdata/shard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 300 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

// check compares the batches of a process with the recorded ones.
func (c shardCase) check(t *testing.T, rank, batchSize int, split bool) {
	collate := func(s []int) ([]int, error) { return s, nil }
	l, err := NewLoader(Func(c.Samples, func(i int) (int, error) { return i, nil }), collate, LoaderOptions{
		BatchSize: batchSize, DropLast: c.DropLast, Shard: Shard{Rank: rank, WorldSize: c.WorldSize,
			SplitBatches: split, Uneven: !c.EvenBatches}, Workers: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := [][]int{}
	for batch, err := range l.Epoch(t.Context(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, batch)
	}
	if want := c.Batches[rank]; !cmp.Equal(got, want) || l.Len() != len(want) {
		t.Errorf("%+v: rank %d has %v (Len %d), want %v", c, rank, got, l.Len(), want)
	}
}

func TestShardsAreThoseOfAccelerate(t *testing.T) {
	for _, c := range shardCases(t) {
		for rank := range c.Batches {
			c.check(t, rank, c.BatchSize, c.SplitBatches)
		}
	}
}

// Splitting a batch over the processes is the same as a smaller batch per process, which is how
// package trainer/arguments implements split_batches.
func TestSplitBatchesAreSmallerOnes(t *testing.T) {
	for _, c := range shardCases(t) {
		if c.SplitBatches {
			for rank := range c.Batches {
				c.check(t, rank, c.BatchSize/c.WorldSize, false)
			}
		}
	}
}

func TestShardLeavesTheOrderAlone(t *testing.T) {
	indices := append(make([]int, 0, 8), 4, 3, 2, 1, 0)
	whole := slices.Clone(indices[:cap(indices)])
	next := Shard{Rank: 1, WorldSize: 2}.batches(sequenceIn(indices), len(indices), 2, false, 0)
	for batch := next(nil); batch != nil; batch = next(nil) {
		batch[0] = -1 // the consumer of a batch may change it
	}
	if !slices.Equal(indices[:cap(indices)], whole) {
		t.Errorf("the order became %v, want %v", indices[:cap(indices)], whole)
	}
}

func TestImpossibleShardsAreRefused(t *testing.T) {
	for want, s := range map[string]Shard{
		"Rank is 2":            {Rank: 2, WorldSize: 2},
		"Rank is -1":           {Rank: -1},
		"Rank is 1":            {Rank: 1},
		"WorldSize is -3":      {WorldSize: -3},
		"a batch of 4 samples": {WorldSize: 3, SplitBatches: true},
	} {
		_, err := NewLoader(Slice[int]{1}, func(s []int) ([]int, error) { return s, nil }, LoaderOptions{BatchSize: 4,
			Shard: s})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", s, err, want)
		}
	}
}
