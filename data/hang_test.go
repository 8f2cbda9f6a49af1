package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hanging has one sample whose At never returns; it signals the call.
type hanging struct {
	numbers
	bad   int
	asked chan struct{}
	never chan struct{}
}

func newHanging(t *testing.T) *hanging {
	h := &hanging{numbers: 20, bad: 7, asked: make(chan struct{}, 100), never: make(chan struct{})}
	t.Cleanup(func() { close(h.never) })
	return h
}

func (h *hanging) At(i int) (int, error) {
	if i == h.bad {
		h.asked <- struct{}{}
		<-h.never
	}
	return i, nil
}

func (h *hanging) Describe(i int) string { return fmt.Sprintf("number-%d.png", i) }

// heeding is the same, but returns when its context is canceled.
type heeding struct{ *hanging }

func (h heeding) AtContext(ctx context.Context, i int) (int, error) {
	if i == h.bad {
		h.asked <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return i, nil
}

func collect(s []int) ([]int, error) { return s, nil }

// epoch iterates over an epoch until its error.
func epoch(t *testing.T, ctx context.Context, d Dataset[int], o LoaderOptions) (batches [][]int, err error) {
	t.Helper()
	o.BatchSize, o.Workers = 2, 3
	l, err := NewLoader(d, collect, o)
	require.NoError(t, err)
	for b, e := range l.Epoch(ctx, 0, 0) {
		if e != nil {
			return batches, e
		}
		batches = append(batches, b)
	}
	return batches, nil
}

func TestASampleThatNeverReturnsIsNamedAndLeft(t *testing.T) {
	log := logged(t)
	h := newHanging(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("received SIGTERM")
	go func() { <-h.asked; cancel(cause) }()
	_, err := epoch(t, ctx, h, LoaderOptions{Patience: 20 * time.Millisecond})
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, ErrNeverReturned)
	var sample *SampleError
	require.ErrorAs(t, err, &sample)
	assert.Equal(t, 7, sample.Index)
	assert.Equal(t, "number-7.png", sample.What)
	assert.Contains(t, log.String(), "sample 7 (number-7.png): it was still being loaded")
}

func TestABreakDoesNotWaitForEver(t *testing.T) {
	log := logged(t)
	h := newHanging(t)
	l, err := NewLoader[int](h, collect, LoaderOptions{BatchSize: 2, Patience: 20 * time.Millisecond})
	require.NoError(t, err)
	for _, err := range l.Epoch(context.Background(), 0, 0) {
		require.NoError(t, err)
		<-h.asked
		break
	}
	assert.Contains(t, log.String(), "number-7.png")
}

func TestAContextDatasetIsToldOfTheEnd(t *testing.T) {
	augmented := func(d Dataset[int]) Dataset[int] { return Map(d, func(i int) (int, error) { return i, nil }) }
	for name, wrap := range map[string]func(d Dataset[int]) (Dataset[int], error){
		"itself": func(d Dataset[int]) (Dataset[int], error) { return d, nil },
		"Map":    func(d Dataset[int]) (Dataset[int], error) { return augmented(d), nil },
		"Concat": func(d Dataset[int]) (Dataset[int], error) { return Concat(d, d) },
		"Take":   func(d Dataset[int]) (Dataset[int], error) { return Range(d, 0, 15) },
		"Subset": func(d Dataset[int]) (Dataset[int], error) { return Subset(d, []int{1, 2, 7, 3}) },
		"Cache":  func(d Dataset[int]) (Dataset[int], error) { return Cache(d, CacheOptions[int]{}) },
	} {
		t.Run(name, func(t *testing.T) {
			log := logged(t)
			h := newHanging(t)
			d, err := wrap(heeding{h})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			go func() { <-h.asked; cancel() }()
			_, err = epoch(t, ctx, d, LoaderOptions{Patience: time.Minute})
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrNeverReturned)
			assert.Empty(t, log.String())
		})
	}
}

func TestCollectTellsAContextDatasetOfTheEnd(t *testing.T) {
	h := newHanging(t)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-h.asked; cancel() }()
	_, err := Load[int](ctx, heeding{h})
	require.ErrorIs(t, err, context.Canceled)
}

func TestSampleTimeout(t *testing.T) {
	for name, d := range map[string]func(h *hanging) Dataset[int]{
		"a data set that hangs":           func(h *hanging) Dataset[int] { return h },
		"a data set that heeds a context": func(h *hanging) Dataset[int] { return heeding{h} },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := epoch(t, context.Background(), d(newHanging(t)),
				LoaderOptions{SampleTimeout: 300 * time.Millisecond})
			require.ErrorIs(t, err, ErrSampleTimeout)
			var sample *SampleError
			require.ErrorAs(t, err, &sample)
			assert.Equal(t, 7, sample.Index)

			var mu sync.Mutex
			left := []int{}
			batches, err := epoch(t, context.Background(), d(newHanging(t)), LoaderOptions{
				SampleTimeout: 300 * time.Millisecond,
				BadSample: func(i int, err error) error {
					mu.Lock()
					defer mu.Unlock()
					left = append(left, i)
					return nil
				}})
			require.NoError(t, err)
			assert.Equal(t, []int{7}, left)
			assert.Equal(t, []int{6}, batches[3], "the batch is that much smaller")
			assert.Len(t, batches, 10)
		})
	}
}

func TestAStreamThatNeverReturnsIsNamedAndLeft(t *testing.T) {
	for name, wait := range map[string]time.Duration{
		"cancelled at once":                             0,
		"cancelled when all that it sent has been used": 50 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			log := logged(t)
			h := newHanging(t)
			l, err := NewStreamLoader(StreamFunc[int](func(pass, skip int) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for i := skip; i < h.Len(); i++ {
						if !yield(h.At(i)) {
							return
						}
					}
				}
			}), collect, LoaderOptions{BatchSize: 2, Patience: 20 * time.Millisecond})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			go func() { <-h.asked; time.Sleep(wait); cancel() }()
			err = nil
			for _, e := range l.Pass(ctx, 3, 0) {
				err = e
			}
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, ErrNeverReturned)
			require.ErrorContains(t, err, "sample 7 (pass 3 of the stream)")
			assert.Contains(t, log.String(), "sample 7")
		})
	}
}

func TestNegativeTimesAreRefused(t *testing.T) {
	for _, o := range []LoaderOptions{{BatchSize: 1, SampleTimeout: -1}, {BatchSize: 1, Patience: -1}} {
		_, err := NewLoader[int](numbers(1), collect, o)
		require.ErrorContains(t, err, "must be positive")
	}
	_, err := NewStreamLoader(StreamOf[int](numbers(1), nil), collect, LoaderOptions{BatchSize: 1, SampleTimeout: 1})
	require.ErrorContains(t, err, "SampleTimeout")
}
