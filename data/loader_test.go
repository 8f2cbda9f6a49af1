package data_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"pgregory.net/rapid"
)

func TestLoaderBatches(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		options data.LoaderOptions
		skip    int
		want    [][]int
	}{
		{"keeps a short last batch", 5, data.LoaderOptions{BatchSize: 2}, 0, [][]int{{0, 1}, {2, 3}, {4}}},
		{"drops it if asked to", 5, data.LoaderOptions{BatchSize: 2, DropLast: true}, 0, [][]int{{0, 1}, {2, 3}}},
		{"skips batches", 5, data.LoaderOptions{BatchSize: 2}, 1, [][]int{{2, 3}, {4}}},
		{"skips all of them", 5, data.LoaderOptions{BatchSize: 2}, 3, nil},
		{"has none without samples", 0, data.LoaderOptions{BatchSize: 2}, 0, nil},
		{"visits in the given order", 5, data.LoaderOptions{BatchSize: 3, Order: data.Shuffled{Seed: 42}}, 0,
			[][]int{{2, 4, 3}, {0, 1}}},
		{"visits more samples than there are", 2, data.LoaderOptions{BatchSize: 3, Order: twice{}}, 0,
			[][]int{{0, 1, 0}, {1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			loader, err := data.NewLoader(numbers(c.n), batch, c.options)
			if err != nil {
				t.Fatal(err)
			}
			got, err := collect(loader, 0, c.skip)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
			if loader.Len() != len(c.want)+c.skip {
				t.Errorf("Len() = %d, want %d", loader.Len(), len(c.want)+c.skip)
			}
		})
	}
}

// twice is an order that visits every sample twice.
type twice struct{}

func (twice) Count(n int) int { return 2 * n }
func (twice) Indices(_, n int) []int {
	return append(data.Sequential{}.Indices(0, n), data.Sequential{}.Indices(0, n)...)
}

func TestBatchesDoNotDependOnWorkersOrPrefetch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		size := rapid.IntRange(1, 9).Draw(t, "batch size")
		epoch := rapid.IntRange(0, 3).Draw(t, "epoch")
		load := func(workers, prefetch, skip int) [][]int {
			loader, err := data.NewLoader(data.Func(n, func(i int) (int, error) {
				if i%3 == 0 {
					runtime.Gosched() // so that batches finish out of order
				}
				return i, nil
			}), batch, data.LoaderOptions{BatchSize: size, Order: data.Shuffled{Seed: 9}, Workers: workers,
				Prefetch: prefetch})
			if err != nil {
				t.Fatal(err)
			}
			batches, err := collect(loader, epoch, skip)
			if err != nil {
				t.Fatal(err)
			}
			return batches
		}
		one := load(1, 1, 0)
		many := load(rapid.IntRange(2, 16).Draw(t, "workers"), rapid.IntRange(1, 20).Draw(t, "prefetch"), 0)
		if fmt.Sprint(one) != fmt.Sprint(many) {
			t.Fatalf("one worker %v, many %v", one, many)
		}
		skip := rapid.IntRange(0, len(one)).Draw(t, "skip")
		if rest := load(3, 2, skip); fmt.Sprint(rest) != fmt.Sprint(one[skip:]) {
			t.Fatalf("after %d batches %v, want %v", skip, rest, one[skip:])
		}
	})
}

func TestSkippedBatchesAreNotLoaded(t *testing.T) {
	var loaded atomic.Int64
	loader, err := data.NewLoader(data.Func(10, func(i int) (int, error) {
		loaded.Add(1)
		return i, nil
	}), batch, data.LoaderOptions{BatchSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect(loader, 0, 4); err != nil || loaded.Load() != 2 {
		t.Errorf("loaded %d samples (%v), want the 2 of the last batch", loaded.Load(), err)
	}
}

func TestPrefetchIsBounded(t *testing.T) {
	for _, c := range []struct{ workers, prefetch int }{{1, 1}, {4, 1}, {4, 3}, {2, 7}} {
		synctest.Test(t, func(t *testing.T) {
			var begun atomic.Int64
			loader, err := data.NewLoader(data.Func(100, func(i int) (int, error) {
				begun.Add(1)
				return i, nil
			}), batch, data.LoaderOptions{BatchSize: 1, Workers: c.workers, Prefetch: c.prefetch})
			if err != nil {
				t.Fatal(err)
			}
			used := int64(0)
			for _, err := range loader.Epoch(t.Context(), 0, 0) {
				if err != nil {
					t.Fatal(err)
				}
				used++
				synctest.Wait() // until the loader is blocked
				if got, want := begun.Load(), min(100, used+int64(c.prefetch)); got != want {
					t.Fatalf("workers %d, prefetch %d: %d batches begun while batch %d is used, want %d", c.workers,
						c.prefetch, got, used, want)
				}
			}
		})
	}
}

func TestWorkersLoadInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 4
		loader, err := data.NewLoader(data.Func(workers, func(i int) (int, error) {
			time.Sleep(time.Second) // on the bubble's clock
			return i, nil
		}), batch, data.LoaderOptions{BatchSize: 1, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := collect(loader, 0, 0); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("%d batches of a second each took %v with %d workers, want 1s", workers, took, workers)
		}
	})
}

// TestNoGoroutineIsLeft relies on synctest, which fails a test if goroutines of its bubble are left
// at the end.
func TestNoGoroutineIsLeft(t *testing.T) {
	broken := errors.New("broken")
	for name, use := range map[string]func(ctx context.Context, cancel func(), l *data.Loader[int, []int]){
		"after the last batch": func(ctx context.Context, _ func(), l *data.Loader[int, []int]) {
			for range l.Epoch(ctx, 0, 0) {
			}
		},
		"after a break": func(ctx context.Context, _ func(), l *data.Loader[int, []int]) {
			for range l.Epoch(ctx, 0, 0) {
				break
			}
		},
		"after a panic of the consumer": func(ctx context.Context, _ func(), l *data.Loader[int, []int]) {
			defer func() { _ = recover() }()
			for range l.Epoch(ctx, 0, 0) {
				panic("consumer")
			}
		},
		"after cancel": func(ctx context.Context, cancel func(), l *data.Loader[int, []int]) {
			for range l.Epoch(ctx, 0, 0) {
				cancel()
			}
		},
		"if the range never begins": func(ctx context.Context, _ func(), l *data.Loader[int, []int]) {
			_ = l.Epoch(ctx, 0, 0)
		},
	} {
		for _, fail := range []int{-1, 9} {
			t.Run(fmt.Sprintf("%s, failing sample %d", name, fail), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					loader, err := data.NewLoader(data.Func(50, func(i int) (int, error) {
						time.Sleep(time.Millisecond)
						if i == fail {
							return 0, broken
						}
						return i, nil
					}), batch, data.LoaderOptions{BatchSize: 3, Workers: 4})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					use(ctx, cancel, loader)
				})
			})
		}
	}
}

func TestCancelledEpochEndsWithTheCause(t *testing.T) {
	cause := errors.New("SIGTERM")
	loader, err := data.NewLoader(numbers(100), batch, data.LoaderOptions{BatchSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	batches, last := 0, error(nil)
	for _, err := range loader.Epoch(ctx, 0, 0) {
		if err != nil {
			last = err
			continue // a consumer that continues gets nothing more
		}
		if batches++; batches == 3 {
			cancel(cause)
		}
	}
	if batches != 3 || !errors.Is(last, cause) {
		t.Errorf("%d batches and %v, want 3 and the cause", batches, last)
	}
	for _, err := range loader.Epoch(ctx, 0, 0) {
		if !errors.Is(err, cause) {
			t.Errorf("an epoch begun after cancel gave %v, want the cause", err)
		}
	}
}

func TestLoaderErrors(t *testing.T) {
	broken := errors.New("truncated JPEG")
	at := func(bad int, f func() (int, error)) data.Dataset[int] {
		return data.Func(8, func(i int) (int, error) {
			if i == bad {
				return f()
			}
			return i, nil
		})
	}
	for _, c := range []struct {
		name    string
		set     data.Dataset[int]
		collate func([]int) ([]int, error)
		options data.LoaderOptions
		batches int // before the error
		want    string
		is      error
	}{
		{"a sample that fails is named", at(5, func() (int, error) { return 0, broken }), batch, data.LoaderOptions{},
			2, "data: sample 5: truncated JPEG", broken},
		{"a sample that panics is named", at(5, func() (int, error) { panic(broken) }), batch, data.LoaderOptions{}, 2,
			"data: sample 5: panic: truncated JPEG", broken},
		{"a sample that panics shows where", at(5, func() (int, error) { panic("no error") }), batch,
			data.LoaderOptions{}, 2, "loader_test.go", nil},
		{"a sample that ends its goroutine", at(5, func() (int, error) { runtime.Goexit(); return 0, nil }), batch,
			data.LoaderOptions{}, 2, "epoch 3, batch 2 (samples 4 5): the data set or the collate function called " +
				"runtime.Goexit", nil},
		{"collate that fails", numbers(8), func(s []int) ([]int, error) {
			if s[0] == 6 {
				return nil, broken
			}
			return s, nil
		}, data.LoaderOptions{}, 3, "epoch 3, batch 3 (samples 6 7): truncated JPEG", broken},
		{"collate that panics", numbers(8), func(s []int) ([]int, error) { return s[:s[0]*100], nil },
			data.LoaderOptions{}, 1, "epoch 3, batch 1 (samples 2 3): panic: runtime error: slice bounds", nil},
		{"BadSample may refuse", at(5, func() (int, error) { return 0, broken }), batch,
			data.LoaderOptions{BadSample: func(i int, err error) error {
				return fmt.Errorf("too many bad samples, the last is %d: %w", i, err)
			}}, 2, "too many bad samples, the last is 5: data: sample 5: truncated JPEG", broken},
		{"a batch that has lost all samples", data.Func(8, func(int) (int, error) { return 0, broken }), batch,
			data.LoaderOptions{BadSample: func(int, error) error { return nil }}, 0, "epoch 3, batch 0 (samples 0 1)",
			data.ErrEmptyBatch},
		{"an order that is too short", numbers(8), batch,
			data.LoaderOptions{Order: data.OrderFunc(func(_, n int) []int { return make([]int, n-1) })}, 0,
			"returned 7 indices for epoch 3 of 8 samples, want 8", nil},
		{"an order beyond the end", numbers(8), batch,
			data.LoaderOptions{Order: data.OrderFunc(func(_, n int) []int { return []int{0, 1, 2, 8, 4, 5, 6, 7} })}, 0,
			"returned index 8 at position 3 of epoch 3, want 0 to 7", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.BatchSize = 2
			loader, err := data.NewLoader(c.set, c.collate, c.options)
			if err != nil {
				t.Fatal(err)
			}
			batches, err := collect(loader, 3, 0)
			if err == nil || !strings.Contains(err.Error(), c.want) || (c.is != nil && !errors.Is(err, c.is)) {
				t.Errorf("error %v, want %q (and %v)", err, c.want, c.is)
			}
			if len(batches) != c.batches {
				t.Errorf("%d batches before the error, want %d", len(batches), c.batches)
			}
		})
	}
}

func TestBadSamplesAreLeftOutOfTheirBatch(t *testing.T) {
	var bad []int
	loader, err := data.NewLoader(data.Func(6, func(i int) (int, error) {
		if i == 1 || i == 4 {
			return 0, errors.New("broken")
		}
		return i, nil
	}), batch, data.LoaderOptions{BatchSize: 3, Workers: 1, BadSample: func(i int, err error) error {
		var e *data.SampleError
		if !errors.As(err, &e) || e.Index != i {
			t.Errorf("BadSample(%d, %v), want a SampleError of that index", i, err)
		}
		bad = append(bad, i)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := collect(loader, 0, 0)
	if diff := cmp.Diff([][]int{{0, 2}, {3, 5}}, got); diff != "" || err != nil {
		t.Errorf("batches (-want +got), error %v:\n%s", err, diff)
	}
	if diff := cmp.Diff([]int{1, 4}, bad); diff != "" {
		t.Errorf("BadSample was told of (-want +got):\n%s", diff)
	}
}

func TestNewLoaderRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     data.Dataset[int]
		collate func([]int) ([]int, error)
		options data.LoaderOptions
	}{
		{"no data set", nil, batch, data.LoaderOptions{BatchSize: 1}},
		{"no collate function", numbers(1), nil, data.LoaderOptions{BatchSize: 1}},
		{"no batch size", numbers(1), batch, data.LoaderOptions{}},
		{"negative workers", numbers(1), batch, data.LoaderOptions{BatchSize: 1, Workers: -1}},
		{"negative prefetch", numbers(1), batch, data.LoaderOptions{BatchSize: 1, Prefetch: -1}},
	} {
		if _, err := data.NewLoader(c.set, c.collate, c.options); err == nil {
			t.Errorf("NewLoader took %s", c.name)
		}
	}
	loader, err := data.NewLoader(numbers(4), batch, data.LoaderOptions{BatchSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, skip := range []int{-1, 3} {
		if _, err := collect(loader, 0, skip); err == nil {
			t.Errorf("Epoch skipped %d of 2 batches", skip)
		}
	}
}

func ExampleLoader_Epoch() {
	lengths := data.Map(data.Slice[string]{"a", "bcd", "ef", "", "ghij"}, func(s string) (int, error) {
		return len(s), nil
	})
	loader, err := data.NewLoader(lengths, func(samples []int) ([]int, error) { return samples, nil },
		data.LoaderOptions{BatchSize: 2, Order: data.Shuffled{Seed: 42}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for epoch := range 2 {
		for batch, err := range loader.Epoch(context.Background(), epoch, 0) {
			fmt.Println(epoch, batch, err)
		}
	}
	// Output:
	// 0 [2 4] <nil>
	// 0 [0 1] <nil>
	// 0 [3] <nil>
	// 1 [0 3] <nil>
	// 1 [4 2] <nil>
	// 1 [1] <nil>
}
