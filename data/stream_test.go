package data_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
)

// counting is an endless stream of the numbers from 0, the same in each pass, which may fail at one
// of them.
func counting(n int, at func(i int) error) data.Stream[int] {
	return data.StreamFunc[int](func(_, skip int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := skip; n < 0 || i < n; i++ {
				var err error
				if at != nil {
					err = at(i)
				}
				if !yield(i, err) {
					return
				}
			}
		}
	})
}

func keep(samples []int) ([]int, error) { return samples, nil }

// TestABatchOfEverything tests that a batch size far above the number of samples takes no memory.
func TestABatchOfEverything(t *testing.T) {
	everything := data.LoaderOptions{BatchSize: math.MaxInt}
	stream, err := data.NewStreamLoader(counting(5, nil), keep, everything)
	require.NoError(t, err)
	for b, err := range stream.Pass(t.Context(), 0, 0) {
		require.NoError(t, err)
		assert.Equal(t, []int{0, 1, 2, 3, 4}, b.Batch)
	}
	loader, err := data.NewLoader(data.Slice[int]{7, 8}, keep, everything)
	require.NoError(t, err)
	for b, err := range loader.Epoch(t.Context(), 0, 0) {
		require.NoError(t, err)
		assert.Equal(t, []int{7, 8}, b)
	}
	everything.Shard.WorldSize = 2
	_, err = data.NewLoader(data.Slice[int]{7, 8}, keep, everything)
	require.ErrorContains(t, err, "which is too large for 2 processes together")
}

func TestStreamOfRefusesToSkipBackwards(t *testing.T) {
	for _, err := range data.StreamOf(data.Slice[int]{7, 8}, nil).Samples(0, -1) {
		require.ErrorContains(t, err, "cannot skip -1 samples")
	}
}

func ExampleStreamLoader_Pass() {
	lines := data.StreamFunc[string](func(pass, skip int) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for i := skip; i < 5; i++ {
				if !yield(fmt.Sprintf("line %d", i), nil) {
					return
				}
			}
		}
	})
	loader, err := data.NewStreamLoader(lines, func(s []string) (string, error) { return strings.Join(s, ", "), nil },
		data.LoaderOptions{BatchSize: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for b, err := range loader.Pass(context.Background(), 0, 1) {
		fmt.Println(b.Batch, b.Samples, err)
	}
	// Output:
	// line 2, line 3 2 <nil>
	// line 4 1 <nil>
}

func TestAStreamIsCutIntoBatchesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size, skip := rapid.IntRange(0, 40).Draw(t, "samples"), rapid.IntRange(1, 7).Draw(t, "batch"),
			rapid.IntRange(0, 8).Draw(t, "skip")
		drop := rapid.Bool().Draw(t, "drop last")
		l, err := data.NewStreamLoader(counting(n, nil), keep, data.LoaderOptions{
			BatchSize: size, DropLast: drop, Workers: rapid.IntRange(1, 4).Draw(t, "workers"),
			Prefetch: rapid.IntRange(1, 4).Draw(t, "prefetch"),
		})
		if err != nil {
			t.Fatal(err)
		}
		next := skip * size
		for b, err := range l.Pass(context.Background(), 0, skip) {
			if err != nil {
				t.Fatal(err)
			}
			want := min(size, n-next)
			if b.Samples != want || len(b.Batch) != want || b.Batch[0] != next || drop && want < size {
				t.Fatalf("batch %v of %d samples, want %d from %d on", b.Batch, b.Samples, want, next)
			}
			next += want
		}
		end := n
		if drop {
			end = n / size * size
		}
		if next != max(end, skip*size) {
			t.Fatalf("the pass ended at %d, want %d", next, end)
		}
	})
}

func TestAStreamIsReadOnlySoFarAhead(t *testing.T) {
	var read atomic.Int64
	l, err := data.NewStreamLoader(counting(-1, func(int) error { read.Add(1); return nil }), keep,
		data.LoaderOptions{BatchSize: 2, Workers: 1, Prefetch: 3})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	batches := 0
	for range l.Pass(t.Context(), 0, 0) {
		if batches++; batches == 10 {
			break
		}
	}
	// 10 used, 3 in the channel, one held by the worker and one by the reader.
	if n := read.Load(); n > 2*(10+3+3) {
		t.Errorf("%d samples were read for 10 batches of 2", n)
	}
	// a finished goroutine is still counted until it has exited
	for try := 0; runtime.NumGoroutine() > before; try++ {
		if try == 1000 {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWhatGoesWrongInAStream(t *testing.T) {
	cause := errors.New("cause")
	atFive := counting(8, func(i int) error {
		if i == 5 {
			return cause
		}
		return nil
	})
	panics := counting(8, func(i int) error {
		if i == 5 {
			panic(cause)
		}
		return nil
	})
	exits := counting(8, func(i int) error {
		if i == 5 {
			runtime.Goexit()
		}
		return nil
	})
	leave := func(int, error) error { return nil }
	for _, c := range []struct {
		claim   string
		stream  data.Stream[int]
		collate func([]int) ([]int, error)
		bad     func(int, error) error
		want    string // batches and the error text
	}{
		{"an error comes after the batches before it", atFive, keep, nil, "[0 1] [2 3] data: sample 5 (pass 0 of the " +
			"stream): cause"},
		{"a bad sample can be left out and keeps its place", atFive, keep, leave, "[0 1] [2 3] [4] [6 7]"},
		{"a panic of the stream is an error", panics, keep, nil, "[0 1] [2 3] panic: cause"},
		{"a stream that ends its goroutine is an error", exits, keep, nil,
			"[0 1] [2 3] the data set or the collate function called runtime.Goexit"},
		{"a batch that lost all its samples is an error", counting(2, func(int) error { return cause }), keep, leave,
			"data: epoch 0, batch 0 (samples 0 1): no sample"},
		{"a failing collate names its batch", counting(4, nil), func(s []int) ([]int, error) {
			if s[0] == 2 {
				return nil, cause
			}
			return s, nil
		}, nil, "[0 1] data: epoch 0, batch 1 (samples 2 3): cause"},
	} {
		l, err := data.NewStreamLoader(c.stream, c.collate, data.LoaderOptions{BatchSize: 2, BadSample: c.bad})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for b, err := range l.Pass(t.Context(), 0, 0) {
			if err != nil {
				got = append(got, err.Error())
				break
			}
			got = append(got, fmt.Sprint(b.Batch))
		}
		if text := strings.Join(got, " "); !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %s, want %s", c.claim, text, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err := data.NewStreamLoader(counting(-1, nil), keep, data.LoaderOptions{BatchSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range l.Pass(ctx, 0, 0) {
		if n++; n == 3 {
			cancel()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if n != 4 {
		t.Errorf("a cancelled pass went on to batch %d", n)
	}
}

// endsAt is a stream of the numbers from 0 that ends with an error instead of n.
func endsAt(n int, err error) data.Stream[int] {
	return data.StreamFunc[int](func(_, skip int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := skip; i < n; i++ {
				if !yield(i, nil) {
					return
				}
			}
			yield(0, err)
		}
	})
}

func TestAStreamThatEndsWithAnErrorIsNotAPass(t *testing.T) {
	cause := errors.New("cause")
	even := func(i int) (int, error) {
		if i%2 != 0 {
			return 0, cause
		}
		return i, nil
	}
	for _, c := range []struct {
		claim  string
		stream data.Stream[int]
		shard  data.Shard
		first  int
		want   string
	}{
		{"an error of its own at the beginning of a batch", endsAt(4, cause), data.Shard{}, 0,
			"[0 1] [2 3] data: sample 4 (pass 0 of the stream): cause"},
		{"an error of its own at the end of a batch", endsAt(3, cause), data.Shard{}, 0,
			"[0 1] [2] data: sample 3 (pass 0 of the stream): cause"},
		{"the error of one sample, the last", endsAt(5, data.OneSample(cause)), data.Shard{}, 0, "[0 1] [2 3] [4]"},
		{"the last one by MapStream", data.MapStream(counting(6, nil), even), data.Shard{}, 0, "[0] [2] [4]"},
		{"the last one by StreamOf", data.StreamOf(data.Func(6, even), nil), data.Shard{}, 0, "[0] [2] [4]"},
		{"at the beginning, which is read again to fill up the end", endsAt(0, cause),
			data.Shard{WorldSize: 2}, 1, "data: sample 0 (pass 0 of the stream): cause"},
	} {
		asked := 0
		l, err := data.NewStreamLoader(c.stream, keep, data.LoaderOptions{BatchSize: 2, Shard: c.shard,
			BadSample: func(int, error) error { asked++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for b, err := range l.Pass(t.Context(), 0, c.first) {
			if err != nil {
				got = append(got, err.Error())
				break
			}
			got = append(got, fmt.Sprint(b.Batch))
		}
		if text := strings.Join(got, " "); text != c.want || asked == 0 {
			t.Errorf("%s: %s, want %s; asked %d times", c.claim, text, c.want, asked)
		}
	}
	if err := data.OneSample(nil); err != nil {
		t.Errorf("OneSample(nil) = %v", err)
	}
}

func TestStreamOfChecksItsOrder(t *testing.T) {
	outside := func(_, n int) []int { return []int{0, n, 1} }
	for want, order := range map[string]data.Order{
		"has 2 lengths for a data set of 3 samples":              data.GroupedByLength{Lengths: []int{1, 2}, BatchSize: 1},
		"returned 1 indices for epoch 1 of 3 samples, want 3":    data.OrderFunc(func(_, _ int) []int { return []int{0} }),
		"returned index 3 at position 1 of epoch 1, want 0 to 2": data.OrderFunc(outside),
	} {
		var text string
		for v, err := range data.StreamOf(numbers(3), order).Samples(1, 0) {
			if text = fmt.Sprint(v); err != nil {
				text = err.Error()
			}
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s, want %q", text, want)
		}
	}
}

func TestStreamsMadeOfOthers(t *testing.T) {
	d := data.Slice[int]{10, 11, 12, 13}
	s := data.MapStream(data.StreamOf[int](d, data.Shuffled{Seed: 1}), func(v int) (string, error) {
		return fmt.Sprint(v), nil
	})
	for pass := range 2 {
		var want, got []string
		for _, i := range (data.Shuffled{Seed: 1}).Indices(pass, 4)[1:] {
			want = append(want, fmt.Sprint(d[i]))
		}
		for v, err := range s.Samples(pass, 1) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, v)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pass %d: %v, want %v", pass, got, want)
		}
	}
	for range data.StreamOf[int](d, nil).Samples(0, 9) {
		t.Error("a sample behind the end")
	}
	if _, err := data.NewStreamLoader(s, func([]string) (int, error) { return 0, nil }, data.LoaderOptions{BatchSize: 1,
		Order: data.Sequential{}}); err == nil {
		t.Error("an order of a stream was accepted")
	}
	if _, err := data.NewStreamLoader[int, int](nil, nil, data.LoaderOptions{BatchSize: 1}); err == nil {
		t.Error("no stream was accepted")
	}
}

func TestTheProcessesOfAShardedStreamHaveItTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world, per := rapid.IntRange(1, 4).Draw(t, "processes"), rapid.IntRange(1, 4).Draw(t, "batch of a process")
		n, skip := rapid.IntRange(0, 40).Draw(t, "samples"), rapid.IntRange(0, 3).Draw(t, "skip")
		shard := data.Shard{WorldSize: world, SplitBatches: rapid.Bool().Draw(t, "split"), Uneven: rapid.Bool().Draw(t,
			"uneven"), FullEnd: rapid.Bool().Draw(t, "full end")}
		full := shard.FullEnd && !shard.Uneven && world > 1
		o := data.LoaderOptions{BatchSize: per, DropLast: rapid.Bool().Draw(t, "drop last"), Workers: 2}
		if shard.SplitBatches {
			o.BatchSize = per * world
		}
		var batches [][]data.StreamBatch[[]int]
		for rank := range world {
			o.Shard = shard
			o.Shard.Rank = rank
			l, err := data.NewStreamLoader(counting(n, nil), keep, o)
			if err != nil {
				t.Fatal(err)
			}
			var own []data.StreamBatch[[]int]
			for b, err := range l.Pass(context.Background(), 0, skip) {
				if err != nil {
					t.Fatal(err)
				}
				own = append(own, b)
			}
			batches = append(batches, own)
		}
		next := skip * per * world
		for i := range batches[0] {
			var round []int
			for rank, own := range batches {
				if i >= len(own) && shard.Uneven {
					continue
				}
				if !shard.Uneven && own[i].Samples != batches[0][i].Samples {
					t.Fatalf("round %d: rank %d has %d samples, rank 0 has %d", i, rank, own[i].Samples,
						batches[0][i].Samples)
				}
				round = append(round, own[i].Batch...)
			}
			want := min(per*world, n-next)
			if batches[0][i].Round != want || len(round) < want || shard.Uneven && len(round) != want ||
				!full && len(round) >= want+world || full && len(round) != per*world {
				t.Fatalf("round %d has %v, Round %d; want %d samples from %d on", i, round, batches[0][i].Round, want,
					next)
			}
			for k, v := range round {
				if fill := v < world || full && v < per*world; k < want && v != next+k || k >= want && !fill {
					t.Fatalf("round %d has %v; want the samples from %d on, filled up with the first", i, round,
						next)
				}
			}
			next += want
		}
		end := n
		if o.DropLast {
			end = n / (per * world) * per * world
		}
		if next != max(end, skip*per*world) {
			t.Fatalf("the pass ended at %d, want %d", next, end)
		}
	})
}
