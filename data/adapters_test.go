package data_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/gotrainer/gotrainer/data"
)

// numbers is the data set 0, 1, ..., n-1.
func numbers(n int) data.Dataset[int] { return data.Slice[int](data.Sequential{}.Indices(0, n)) }

// batch is a collate function that returns the samples unchanged.
func batch(samples []int) ([]int, error) { return samples, nil }

// all returns every sample of a data set.
func all[S any](t *testing.T, d data.Dataset[S]) []S {
	t.Helper()
	samples := []S{}
	for i := range d.Len() {
		s, err := d.At(i)
		if err != nil {
			t.Fatalf("At(%d): %v", i, err)
		}
		samples = append(samples, s)
	}
	return samples
}

// collect returns the batches of an epoch up to the first error, and that error.
func collect[S, B any](l *data.Loader[S, B], epoch, skip int) (batches []B, err error) {
	for b, err := range l.Epoch(context.Background(), epoch, skip) {
		if err != nil {
			return batches, err
		}
		batches = append(batches, b)
	}
	return batches, nil
}

func TestAdapters(t *testing.T) {
	squares := data.Map(numbers(5), func(i int) (int, error) { return i * i, nil })
	odd, err := data.Subset(squares, []int{1, 3, 3})
	if err != nil {
		t.Fatal(err)
	}
	joined, err := data.Concat(odd, data.Slice[int]{}, data.Func(2, func(i int) (int, error) { return -i - 1, nil }))
	if err != nil {
		t.Fatal(err)
	}
	empty, err := data.Concat[int]()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		set  data.Dataset[int]
		want []int
	}{
		{"Map", squares, []int{0, 1, 4, 9, 16}},
		{"Subset repeats", odd, []int{1, 9, 9}},
		{"Concat passes over an empty set", joined, []int{1, 9, 9, -1, -2}},
		{"Concat of nothing", empty, []int{}},
	} {
		if got := all(t, c.set); !slices.Equal(got, c.want) {
			t.Errorf("%s = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAdaptersRefuse(t *testing.T) {
	if _, err := data.Subset(numbers(3), []int{0, 3}); err == nil {
		t.Error("Subset took index 3 of 3 samples")
	}
	if _, err := data.Subset(numbers(3), []int{-1}); err == nil {
		t.Error("Subset took index -1")
	}
	if _, err := data.Concat(numbers(3), nil); err == nil {
		t.Error("Concat took nil")
	}
}

// files is a data set whose samples have names but cannot be read.
type files struct{}

func (files) Len() int              { return 4 }
func (files) At(int) (int, error)   { return 0, errors.New("unreadable") }
func (files) Describe(i int) string { return "file-" + strconv.Itoa(i) }

func TestAdaptersPassTheDescriptionOn(t *testing.T) {
	mapped := data.Map(files{}, func(i int) (int, error) { return i, nil })
	random := data.Augment(mapped, 1, func(_ *rand.Rand, i int) (int, error) { return i, nil })
	part, err := data.Subset(random, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	joined, err := data.Concat(numbers(7), part)
	if err != nil {
		t.Fatal(err)
	}
	loader, err := data.NewLoader(joined, batch, data.LoaderOptions{BatchSize: 8})
	if err != nil {
		t.Fatal(err)
	}
	_, err = collect(loader, 0, 0)
	var sample *data.SampleError
	if !errors.As(err, &sample) || sample.Index != 7 || sample.What != "file-2" {
		t.Errorf("error %v, want a SampleError of sample 7, file-2", err)
	}
}

func TestAugmentDependsOnSeedEpochAndIndexOnly(t *testing.T) {
	run := func(seed uint64, epoch, skip, workers int) [][]uint64 {
		noisy := data.Augment(numbers(20), seed, func(r *rand.Rand, i int) (uint64, error) { return r.Uint64(), nil })
		part, err := data.Subset(noisy, data.Sequential{}.Indices(0, 20)) // through another adapter
		if err != nil {
			t.Fatal(err)
		}
		loader, err := data.NewLoader(part, func(s []uint64) ([]uint64, error) { return s, nil },
			data.LoaderOptions{BatchSize: 4, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		batches, err := collect(loader, epoch, skip)
		if err != nil {
			t.Fatal(err)
		}
		return batches
	}
	first := run(1, 2, 0, 1)
	if again := run(1, 2, 0, 8); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Error("the numbers depend on the workers")
	}
	if resumed := run(1, 2, 3, 4); fmt.Sprint(resumed) != fmt.Sprint(first[3:]) {
		t.Error("the numbers depend on where the epoch was entered")
	}
	seen := map[uint64]bool{}
	for _, batches := range [][][]uint64{first, run(1, 3, 0, 1), run(2, 2, 0, 1)} {
		for _, x := range slices.Concat(batches...) {
			if seen[x] {
				t.Fatal("two samples, epochs or seeds have the same numbers")
			}
			seen[x] = true
		}
	}
}
