package data_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"pgregory.net/rapid"
)

// goldenOrder is an entry of testdata/orders.json, written by orders.py next to it.
type goldenOrder struct {
	Seed     uint64
	Epoch    int
	Batch    int
	Lengths  []int
	N        int
	Indices  []int
	SHA256   string
	Fraction float64
	First    []int
	Second   []int
}

func goldenOrders(t *testing.T) map[string][]goldenOrder {
	t.Helper()
	text, err := os.ReadFile("testdata/orders.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string][]goldenOrder
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	return golden
}

// compare checks a permutation against a golden one.
func (g goldenOrder) compare(t *testing.T, call string, got []int) {
	t.Helper()
	if g.SHA256 == "" {
		if !slices.Equal(got, g.Indices) {
			t.Errorf("%s = %v, want %v", call, got, g.Indices)
		}
		return
	}
	h := sha256.New()
	for _, i := range got {
		fmt.Fprintf(h, "%d ", i)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != g.SHA256 {
		t.Errorf("%s differs from Python's: begins %v", call, got[:8])
	}
}

func TestOrdersMatchPython(t *testing.T) {
	golden := goldenOrders(t)
	for _, g := range golden["seedable"] {
		g.compare(t, fmt.Sprintf("Shuffled{%d}.Indices(%d, %d)", g.Seed, g.Epoch, g.N),
			data.Shuffled{Seed: g.Seed}.Indices(g.Epoch, g.N))
	}
	for _, g := range golden["randperm"] {
		g.compare(t, fmt.Sprintf("Permutation(%d, %d)", g.Seed, g.N), data.Permutation(g.Seed, g.N))
	}
	for _, g := range golden["python"] {
		g.compare(t, fmt.Sprintf("PythonShuffled{%d}.Indices(0, %d)", g.Seed, g.N),
			data.PythonShuffled{Seed: g.Seed}.Indices(0, g.N))
	}
	for _, g := range golden["grouped"] {
		order := data.GroupedByLength{Lengths: g.Lengths, BatchSize: g.Batch, Random: data.Shuffled{Seed: g.Seed}}
		g.compare(t, fmt.Sprintf("GroupedByLength of %d in %d", g.Batch, g.N), order.Indices(0, g.N))
	}
}

func TestSplitMatchesPyTorch(t *testing.T) {
	for _, g := range goldenOrders(t)["split"] {
		first, second, err := data.Split(numbers(g.N), g.Fraction, g.Seed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]int{g.First, g.Second}, [][]int{all(t, first), all(t, second)}); diff != "" {
			t.Errorf("Split(%d samples, %v) (-PyTorch +ours):\n%s", g.N, g.Fraction, diff)
		}
	}
	for _, g := range goldenOrders(t)["sizes"] {
		first, second, err := data.Split(numbers(g.N), g.Fraction, 0)
		if err != nil {
			t.Fatal(err)
		}
		if sizes := []int{first.Len(), second.Len()}; !slices.Equal(sizes, g.Lengths) {
			t.Errorf("Split(%d samples, %v) has %v, want PyTorch's %v", g.N, g.Fraction, sizes, g.Lengths)
		}
	}
	for _, fraction := range []float64{-0.1, 1.1} {
		if _, _, err := data.Split(numbers(3), fraction, 0); err == nil {
			t.Errorf("Split took the fraction %v", fraction)
		}
	}
}

func TestEveryOrderIsAPermutationAndAPureFunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		epoch := rapid.IntRange(0, 5).Draw(t, "epoch")
		seed := rapid.Uint64().Draw(t, "seed")
		lengths := rapid.SliceOfN(rapid.IntRange(0, 9), n, n).Draw(t, "lengths")
		for _, order := range []data.Order{
			data.Sequential{}, data.Shuffled{Seed: seed}, data.PythonShuffled{Seed: seed},
			data.GroupedByLength{Lengths: lengths, BatchSize: rapid.IntRange(1, 9).Draw(t, "batch"),
				Random: data.Shuffled{Seed: seed}},
		} {
			got := order.Indices(epoch, n)
			if again := order.Indices(epoch, n); !slices.Equal(got, again) {
				t.Fatalf("%T gave %v and then %v", order, got, again)
			}
			slices.Sort(got)
			if !slices.Equal(got, data.Sequential{}.Indices(0, n)) {
				t.Fatalf("%T of %d is no permutation: %v", order, n, got)
			}
		}
	})
}

func TestGroupedByLengthRefusesAnotherDataSet(t *testing.T) {
	for name, order := range map[string]data.GroupedByLength{
		"too few lengths": {Lengths: []int{1, 2}, BatchSize: 2},
		"no batch size":   {Lengths: []int{1, 2, 3}},
	} {
		loader, err := data.NewLoader(numbers(3), batch, data.LoaderOptions{BatchSize: 2, Order: order})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collect(loader, 0, 0); err == nil {
			t.Errorf("%s: the epoch began", name)
		}
	}
}
