package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
)

// Stream is a source of samples without a known length: PyTorch's IterableDataset. A run goes over it pass by pass.
//
// Samples returns the samples of a pass, 0 being the first, without its first skip ones; a resumed run skips those that it was trained
// on, so they should cost little. A pass must have the same samples each time it is asked for, or a resumed run is not the one that was
// interrupted. A stream that can be read only once has no samples in its further passes. The first error ends a pass.
//
// Samples is ranged over by one goroutine at a time, which is not that of the training loop.
type Stream[S any] interface {
	Samples(pass, skip int) iter.Seq2[S, error]
}

// StreamFunc makes a [Stream] of a function.
type StreamFunc[S any] func(pass, skip int) iter.Seq2[S, error]

// Samples calls f.
func (f StreamFunc[S]) Samples(pass, skip int) iter.Seq2[S, error] { return f(pass, skip) }

// StreamOf returns the samples of a data set as a stream, in the order of o for each pass; nil means [Sequential].
func StreamOf[S any](d Dataset[S], o Order) Stream[S] {
	if o == nil {
		o = Sequential{}
	}
	return StreamFunc[S](func(pass, skip int) iter.Seq2[S, error] {
		return func(yield func(S, error) bool) {
			indices := o.Indices(pass, d.Len())
			for _, i := range indices[min(skip, len(indices)):] {
				if !yield(atEpoch(d, pass, i)) {
					return
				}
			}
		}
	})
}

// MapStream returns the stream of f applied to the samples of s. f is called by the one goroutine that reads; work that is worth
// several belongs into the collate function.
func MapStream[S, T any](s Stream[S], f func(S) (T, error)) Stream[T] {
	return StreamFunc[T](func(pass, skip int) iter.Seq2[T, error] {
		return func(yield func(T, error) bool) {
			for sample, err := range s.Samples(pass, skip) {
				var t T
				if err == nil {
					t, err = f(sample)
				}
				if !yield(t, err) {
					return
				}
			}
		}
	})
}

// StreamBatch is a batch of a [Stream] and the number of samples it was made of.
type StreamBatch[B any] struct {
	Batch   B
	Samples int
}

// StreamLoader hands out the batches of a [Stream], pass by pass: one goroutine reads, several collate, and the batches come in the
// order of the samples.
type StreamLoader[S, B any] struct {
	stream  Stream[S]
	collate func([]S) (B, error)
	options LoaderOptions
}

// NewStreamLoader returns a loader that makes its batches with collate, which is called by several goroutines at a time. Of the options
// Order must be nil: the order is the stream's.
func NewStreamLoader[S, B any](s Stream[S], collate func([]S) (B, error), o LoaderOptions) (*StreamLoader[S, B], error) {
	switch {
	case s == nil:
		return nil, errors.New("data: NewStreamLoader needs a stream, got nil")
	case collate == nil:
		return nil, errors.New("data: NewStreamLoader needs a function that makes a batch of samples, got nil")
	case o.Order != nil:
		return nil, fmt.Errorf("data: LoaderOptions.Order is %T; want nil, since the order of a stream is its own", o.Order)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &StreamLoader[S, B]{stream: s, collate: collate, options: o}, nil
}

// Pass returns the batches of a pass in order, without the first skip ones. No more than Prefetch batches are ready or in the making
// ahead of the one that is being used. Errors, and what has ended when the range ends, are as in [Loader.Epoch]; a sample's index
// in them, and that given to BadSample, is its place in the pass.
func (l *StreamLoader[S, B]) Pass(ctx context.Context, pass, skip int) iter.Seq2[StreamBatch[B], error] {
	return func(yield func(StreamBatch[B], error) bool) {
		if skip < 0 {
			yield(StreamBatch[B]{}, fmt.Errorf("data: cannot skip %d batches of a pass", skip))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		var workers sync.WaitGroup
		defer workers.Wait() // after cancel: deferred calls run last to first
		defer cancel()

		for job := range l.start(ctx, &workers, pass, skip) {
			var r result[StreamBatch[B]]
			select {
			case r = <-job.done:
			case <-ctx.Done():
				r.err = context.Cause(ctx)
			}
			if ctx.Err() != nil && r.err == nil {
				r = result[StreamBatch[B]]{err: context.Cause(ctx)} // both were ready: a cancelled run gets no more work
			}
			if !yield(r.batch, r.err) || r.err != nil {
				return
			}
		}
		if ctx.Err() != nil { // the reader stopped early
			yield(StreamBatch[B]{}, context.Cause(ctx))
		}
	}
}

// streamJob is one batch to be made; done takes its result and never blocks the worker.
type streamJob[S, B any] struct {
	samples []S
	batch   int
	done    chan result[StreamBatch[B]]
}

// start starts the reader and the workers of a pass. The returned channel has the batches in order; its capacity bounds how far they run ahead.
func (l *StreamLoader[S, B]) start(ctx context.Context, wg *sync.WaitGroup, pass, first int) <-chan streamJob[S, B] {
	ordered := make(chan streamJob[S, B], l.options.Prefetch)
	work := make(chan streamJob[S, B])
	for range min(l.options.Workers, l.options.Prefetch+1) {
		wg.Go(func() {
			for j := range work {
				l.do(pass, j)
			}
		})
	}
	wg.Go(func() {
		defer close(ordered)
		defer close(work)
		batch := first
		send := func(samples []S, err error) bool {
			j := streamJob[S, B]{samples: samples, batch: batch, done: make(chan result[StreamBatch[B]], 1)}
			batch++
			if err != nil {
				j.done <- result[StreamBatch[B]]{err: err}
			}
			select {
			case ordered <- j:
			case <-ctx.Done():
				return false
			}
			if err != nil {
				return false
			}
			select {
			case work <- j:
				return true
			case <-ctx.Done():
				return false
			}
		}
		end := errGoexit // unless the stream returns
		defer func() {
			if end != nil {
				send(nil, end)
			}
		}()
		end = l.read(ctx, pass, first, send)
	})
	return ordered
}

// read cuts the samples of a pass into batches. What it returns is the error that ends the pass.
func (l *StreamLoader[S, B]) read(ctx context.Context, pass, first int, send func([]S, error) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	size := l.options.BatchSize
	samples, left := make([]S, 0, size), 0
	index := first * size
	for sample, e := range l.stream.Samples(pass, index) {
		if ctx.Err() != nil {
			return nil
		}
		if e != nil {
			if e = l.options.BadSample(index, &SampleError{Index: index, What: fmt.Sprintf("pass %d of the stream", pass), Err: e}); e != nil {
				return e
			}
			left++ // it keeps its place, so that the batches can be counted
		} else {
			samples = append(samples, sample)
		}
		index++
		if len(samples)+left < size {
			continue
		}
		if !send(samples, nil) {
			return nil
		}
		samples, left = make([]S, 0, size), 0
	}
	if len(samples)+left > 0 && !l.options.DropLast {
		send(samples, nil)
	}
	return nil
}

// do collates one batch and hands it over, even if the collate function ends the goroutine.
func (l *StreamLoader[S, B]) do(pass int, j streamJob[S, B]) {
	n, err := len(j.samples), errGoexit
	var batch B
	defer func() {
		r := result[StreamBatch[B]]{batch: StreamBatch[B]{Batch: batch, Samples: n}}
		if err != nil {
			r = result[StreamBatch[B]]{err: &BatchError{Epoch: pass, Batch: j.batch, Indices: l.places(j.batch), Err: err}}
		}
		j.done <- r
	}()
	if n == 0 {
		err = ErrEmptyBatch
		return
	}
	batch, err = guard(func() (B, error) { return l.collate(j.samples) })
}

// places are where the samples of a full batch stand in their pass.
func (l *StreamLoader[S, B]) places(batch int) []int {
	places := make([]int, l.options.BatchSize)
	for i := range places {
		places[i] = batch*l.options.BatchSize + i
	}
	return places
}
