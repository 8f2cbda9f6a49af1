package data_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
)

// got returns a function that returns the data set, or fails the test with the error.
func got[S any](d data.Dataset[S], err error) func(testing.TB) (data.Dataset[S], error) {
	return func(testing.TB) (data.Dataset[S], error) { return d, err }
}

func TestEnumeratedSamplesKnowTheirIndices(t *testing.T) {
	augmented := data.Augment(numbers(9), 1, func(_ *rand.Rand, i int) (int, error) { return i, nil })
	part, err := data.Subset(data.Enumerate(augmented), []int{7, 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]data.Numbered[int]{{7, 7}, {1, 1}}, all(t, part)); diff != "" {
		t.Error(diff)
	}
	if !data.Varies(part) || data.Varies(data.Enumerate(numbers(9))) {
		t.Error("only the samples of an augmented set differ from epoch to epoch")
	}
}

func TestOperations(t *testing.T) {
	ctx := context.Background()
	ten, three := numbers(10), numbers(3)
	for _, c := range []struct {
		name string
		set  func(testing.TB) (data.Dataset[int], error)
		want []int
	}{
		{"Range", got(data.Range(ten, 2, 5)), []int{2, 3, 4}},
		{"Range of nothing", got(data.Range(ten, 10, 10)), []int{}},
		{"Take", got(data.Take(ten, 2), nil), []int{0, 1}},
		{"Take more than there are", got(data.Take(three, 9), nil), []int{0, 1, 2}},
		{"Take a negative number", got(data.Take(three, -1), nil), []int{}},
		{"Skip", got(data.Skip(ten, 8), nil), []int{8, 9}},
		{"Skip all", got(data.Skip(ten, 11), nil), []int{}},
		{"Skip a negative number", got(data.Skip(three, -1), nil), []int{0, 1, 2}},
		{"Subset", got(data.Subset(ten, []int{7, 1, 7})), []int{7, 1, 7}},
		{"Reverse", got(data.Reverse(three), nil), []int{2, 1, 0}},
		{"Repeat", got(data.Repeat(three, 2)), []int{0, 1, 2, 0, 1, 2}},
		{"Repeat never", got(data.Repeat(three, 0)), []int{}},
		{"Interleave ends with the shortest", got(data.Interleave(three, data.Skip(ten, 5), data.Take(ten, 2))),
			[]int{0, 5, 0, 1, 6, 1}},
		{"Interleave of nothing", got(data.Interleave[int]()), []int{}},
		{"Concat", got(data.Concat(three, data.Skip(ten, 9))), []int{0, 1, 2, 9}},
		{"Filter", got(data.Filter(ctx, ten, func(i int) (bool, error) { return i%3 == 0, nil })), []int{0, 3, 6, 9}},
		{"Filter nothing in", got(data.Filter(ctx, ten, func(int) (bool, error) { return false, nil })), []int{}},
		{"SortBy is stable", got(data.SortBy(ctx, ten, func(i int) (int, error) { return -(i / 4), nil })),
			[]int{8, 9, 4, 5, 6, 7, 0, 1, 2, 3}},
	} {
		d, err := c.set(t)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, all(t, d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestOperationsRefuse(t *testing.T) {
	ctx, three := context.Background(), numbers(3)
	bad := errors.New("bad sample")
	for _, c := range []struct {
		name string
		set  func(testing.TB) (data.Dataset[int], error)
		want string
	}{
		{"a range past the end", got(data.Range(three, 1, 4)), "[1:4] does not fit in a data set of 3 samples"},
		{"a range backwards", got(data.Range(three, 2, 1)), "[2:1]"},
		{"an index past the end", got(data.Subset(three, []int{3})), "index 3"},
		{"a shard that does not exist", got(data.Part(three, 2, 2)), "part 2 of 2"},
		{"no shards", got(data.Stride(three, 0, 0)), "part 0 of 0"},
		{"repeating too often", got(data.Repeat(three, 1<<62)), "not possible"},
		{"repeating less than never", got(data.Repeat(three, -1)), "not possible"},
		{"interleaving nil", got(data.Interleave(three, nil)), "data set 1 is nil"},
		{"a filter that fails", got(data.Filter(ctx, three, func(i int) (bool, error) { return true, bad })),
			"bad sample"},
		{"a filter that panics", got(data.Filter(ctx, three, func(i int) (bool, error) { panic("ouch") })), "ouch"},
	} {
		if _, err := c.set(t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := data.Zip(three, numbers(4)); err == nil {
		t.Error("Zip accepts different lengths")
	}
	if _, err := data.Batch(three, 0); err == nil {
		t.Error("Batch accepts the size 0")
	}
	if _, err := data.Flatten(data.Slice[[]int]{{1}}, nil); err == nil {
		t.Error("Flatten accepts another number of lengths")
	}
	for _, size := range []float64{0, 1, -0.1, 0.99} {
		if _, _, err := data.TrainTestSplit(three, size, 1); err == nil {
			t.Errorf("TrainTestSplit accepts %v of 3", size)
		}
	}
}

func TestZipBatchFlatten(t *testing.T) {
	pairs, err := data.Zip(numbers(3), data.Slice[string]{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]data.Pair[int, string]{{0, "a"}, {1, "b"}, {2, "c"}}, all(t, pairs)); diff != "" {
		t.Error(diff)
	}
	groups, err := data.Batch(numbers(5), 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]int{{0, 1}, {2, 3}, {4}}, all(t, groups)); diff != "" {
		t.Error(diff)
	}
	lengths, err := data.Collect(context.Background(), groups, func(g []int) (int, error) { return len(g), nil })
	if err != nil {
		t.Fatal(err)
	}
	flat, err := data.Flatten(groups, lengths)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all(t, numbers(5)), all(t, flat)); diff != "" {
		t.Error(diff)
	}
	wrong, err := data.Flatten(groups, []int{2, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.At(4); err == nil || !strings.Contains(err.Error(), "sample 2 has 1 items") {
		t.Errorf("a wrong length: %v", err)
	}
}

func TestCollectEndsWithTheFirstErrorAndWithItsContext(t *testing.T) {
	bad := errors.New("bad")
	_, err := data.Collect(context.Background(), numbers(1000), func(i int) (int, error) {
		if i == 500 {
			return 0, bad
		}
		return i, nil
	})
	var sample *data.SampleError
	if !errors.As(err, &sample) || sample.Index != 500 || !errors.Is(err, bad) {
		t.Errorf("Collect = %v, want a SampleError of 500", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var calls atomic.Int64
	_, err = data.Collect(ctx, numbers(1_000_000), func(i int) (int, error) {
		if calls.Add(1) == 10 {
			cancel()
		}
		return i, nil
	})
	if !errors.Is(err, context.Canceled) || calls.Load() > 10_000 {
		t.Errorf("a cancelled Collect = %v after %d calls", err, calls.Load())
	}
	kept, err := data.Load(context.Background(), numbers(1000))
	if err != nil || !slices.Equal(kept, data.Sequential{}.Indices(0, 1000)) {
		t.Errorf("Load: %v", err)
	}
}

// loads returns a data set that counts how often each sample was loaded.
func loads(n int) (data.Dataset[int], []atomic.Int64) {
	counts := make([]atomic.Int64, n)
	return data.Func(n, func(i int) (int, error) { counts[i].Add(1); return i, nil }), counts
}

func TestCacheLoadsOnceUpToItsLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64
		want  int64 // loads of ten samples in three epochs
	}{{"no limit", 0, 10}, {"four samples", 40, 4 + 3*6}, {"no sample", 5, 30}} {
		d, counts := loads(10)
		cache, err := data.Cache(d, data.CacheOptions[int]{Bytes: c.limit, Size: func(int) int64 { return 10 }})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if diff := cmp.Diff(all(t, numbers(10)), all(t, cache)); diff != "" {
				t.Fatal(diff)
			}
		}
		total := int64(0)
		for i := range counts {
			total += counts[i].Load()
		}
		if total != c.want {
			t.Errorf("%s: %d loads, want %d", c.name, total, c.want)
		}
	}
}

func TestCacheIsSafeForManyGoroutines(t *testing.T) {
	d, _ := loads(100)
	cache, err := data.Cache(d, data.CacheOptions[int]{Bytes: 500, Size: func(int) int64 { return 10 }})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				if s, err := cache.At(i); s != i || err != nil {
					t.Errorf("At(%d) = %d, %v", i, s, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestCacheKeepsNoErrorAndRefusesWhatVaries(t *testing.T) {
	fail := true
	flaky := data.Func(1, func(int) (int, error) {
		if fail {
			return 0, errors.New("not yet")
		}
		return 7, nil
	})
	cache, err := data.Cache(flaky, data.CacheOptions[int]{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.At(0); err == nil {
		t.Error("the error was lost")
	}
	fail = false
	if s, err := cache.At(0); s != 7 || err != nil {
		t.Errorf("At = %d, %v after an error", s, err)
	}
	augmented := data.Augment(numbers(9), 1, func(r *rand.Rand, i int) (int, error) { return r.IntN(100) + i, nil })
	mapped := data.Map(data.Take(augmented, 5), func(i int) (int, error) { return i, nil })
	if _, err := data.Cache(mapped, data.CacheOptions[int]{}); err == nil || !strings.Contains(err.Error(),
		"differ from epoch to epoch") {
		t.Errorf("Cache of augmented samples: %v", err)
	}
	if _, err := data.Cache(data.Map(numbers(3), func(i int) (int, error) { return i, nil }),
		data.CacheOptions[int]{}); err != nil {
		t.Errorf("Cache of a mapped data set: %v", err)
	}
	if _, err := data.Cache(numbers(3), data.CacheOptions[int]{Bytes: 1}); err == nil {
		t.Error("a limit without sizes is accepted")
	}
}

func TestOperationsPassTheEpochAndTheDescriptionOn(t *testing.T) {
	base := data.Augment[int](described{numbers(8)}, 1, func(r *rand.Rand, i int) (int, error) {
		return r.IntN(1_000_000), nil
	})
	pairs, _ := data.Zip(data.Take(base, 3), data.Take(base, 3))
	groups, _ := data.Batch(base, 3)
	flat, _ := data.Flatten(groups, []int{3, 3, 2})
	ends := data.Reverse(base).(data.EpochDataset[int])
	want := func(epoch, i int) int {
		s, err := base.(data.EpochDataset[int]).AtEpoch(epoch, i)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for epoch := range 2 {
		p, _ := pairs.(data.EpochDataset[data.Pair[int, int]]).AtEpoch(epoch, 2)
		g, _ := groups.(data.EpochDataset[[]int]).AtEpoch(epoch, 1)
		f, _ := flat.(data.EpochDataset[int]).AtEpoch(epoch, 4)
		e, _ := ends.AtEpoch(epoch, 1)
		if p.First != want(epoch, 2) || p.Second != want(epoch, 2) || g[1] != want(epoch, 4) || f != want(epoch, 4) ||
			e != want(epoch, 6) {
			t.Errorf("epoch %d: %v %v %v %v", epoch, p, g, f, e)
		}
	}
	if want(0, 2) == want(1, 2) {
		t.Error("the epoch makes no difference")
	}
	if got := data.Reverse(base).(data.Describer).Describe(1); got != "number 6" {
		t.Errorf("Describe = %q", got)
	}
	if got := pairs.(data.Describer).Describe(1); got != "number 1 with number 1" {
		t.Errorf("Describe = %q", got)
	}
}

type described struct{ data.Dataset[int] }

func (described) Describe(i int) string { return fmt.Sprintf("number %d", i) }
