package data_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"pgregory.net/rapid"
)

func TestBatchRebalanceIsThatOfTransformers(t *testing.T) {
	text, err := os.ReadFile("testdata/batch_rebalance.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Lengths    []int
		BatchSize  int `json:"batch_size"`
		Accumulate int
		DropLast   bool `json:"drop_last"`
		Seed       uint64
		Epoch      int
		Ranks      [][][]int
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for k, c := range cases {
		order := data.BatchRebalance{Lengths: c.Lengths, BatchSize: c.BatchSize, Accumulate: c.Accumulate, Seed: c.Seed,
			DropLast: c.DropLast}
		if c.Seed == 42 {
			order.Seed = 0
		}
		for rank, want := range c.Ranks {
			loader, err := data.NewLoader(numbers(len(c.Lengths)), batch, data.LoaderOptions{BatchSize: 1, Order: order,
				Shard: data.Shard{Rank: rank, WorldSize: len(c.Ranks)}})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]int
			for b, err := range loader.Epoch(t.Context(), c.Epoch, 0) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b)
			}
			if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
				t.Errorf("case %d, process %d of %d (-want +got):\n%s", k, rank, len(c.Ranks), diff)
			}
			if loader.Len() != len(want) {
				t.Errorf("case %d: Len() = %d, want %d", k, loader.Len(), len(want))
			}
		}
	}
}

func TestBatchRebalanceVisitsEverySample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 50).Draw(t, "lengths")
		r := data.BatchRebalance{Lengths: lengths, BatchSize: rapid.IntRange(1, 9).Draw(t, "batch size"),
			Accumulate: rapid.IntRange(0, 4).Draw(t, "accumulate")}
		n, world, seen := len(lengths), rapid.IntRange(1, 3).Draw(t, "processes"), map[int]bool{}
		for rank := range world {
			s := data.Shard{Rank: rank, WorldSize: world}
			batches := r.Batches(1, n, s)
			if len(batches) != r.CountBatches(n, s) {
				t.Fatalf("%d batches, CountBatches is %d", len(batches), r.CountBatches(n, s))
			}
			for _, b := range batches {
				if len(b) == 0 {
					t.Fatal("an empty batch")
				}
				for _, i := range b {
					seen[i] = true
				}
			}
		}
		if len(seen) != n {
			t.Fatalf("%d of %d samples are visited", len(seen), n)
		}
		if got := len(r.Indices(0, n)); got != r.Count(n) {
			t.Fatalf("%d indices, Count is %d", got, r.Count(n))
		}
	})
}

func TestBatchRebalanceRefuses(t *testing.T) {
	for _, c := range []struct {
		claim string
		order data.BatchRebalance
		want  string
	}{
		{"another number of lengths", data.BatchRebalance{Lengths: []int{1, 2}, BatchSize: 1},
			"2 lengths for a data set of 3 samples"},
		{"no batch size", data.BatchRebalance{Lengths: []int{1, 2, 3}}, "BatchSize is 0"},
		{"a negative window", data.BatchRebalance{Lengths: []int{1, 2, 3}, BatchSize: 1, Accumulate: -1},
			"Accumulate is -1"},
	} {
		loader, err := data.NewLoader(numbers(3), batch, data.LoaderOptions{BatchSize: 1, Order: c.order})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collect(loader, 0, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.claim, err, c.want)
		}
	}
}

func ExampleBatchRebalance() {
	order := data.BatchRebalance{Lengths: []int{100, 3, 4, 5, 2, 90, 3, 4}, BatchSize: 4, Accumulate: 2}
	for _, batch := range order.Batches(0, 8, data.Shard{}) {
		fmt.Println(len(batch), slices.Max(batch) < 8)
	}
	// Output:
	// 2 true
	// 6 true
}
